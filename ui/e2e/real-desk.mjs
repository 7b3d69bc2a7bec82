// The desk around the answers, in the real app: it is killed and comes back, reports on itself, measures itself, and
// answers other programs.
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { Key } from 'selenium-webdriver';
import { App } from './driver.mjs';

/** Kills the app while two tabs answer, and starts it again. Returns the new one. */
export async function killedWhileTwoTabsAnswerItLosesNothing(app, dataDir) {
	const first = await app.openMoreTabs(3);
	const reader = first + 2;
	await app.showTab(reader);
	await app.setSetting('maxTokens', '8');
	await app.settingsAre({ maxTokens: 8 });
	const lines = Array.from({ length: 80 }, (_, i) => `Line ${i + 1} of a list.`);
	await app.put(lines.join('\n'));
	await app.pressEnter();
	await app.untilAnswered(60_000);
	await app.until('a place up in the list to be stored', async () => {
		await app.run(
			`const list = document.querySelector('[data-testid="message"]').closest('[role="region"]');
			if (list.scrollTop === 0 || list.scrollTop > 300) {
				list.dispatchEvent(new WheelEvent('wheel', { deltaY: -100 }));
				list.scrollTop = 240;
			}`,
		);
		return (await app.stored()).scroll !== null;
	});
	const draft = 'What I was about to ask';
	await app.type(draft);
	await app.until('the draft to be stored', async () => (await app.stored()).draft === draft);
	const place = (await app.stored()).scroll;
	for (const tab of [first, first + 1]) {
		await app.showTab(tab);
		await app.ask('Write a very long story about a mountain.');
		await app.untilSomeText();
	}
	const tabs = await app.tabs();
	// What is written is at most a second behind what is shown.
	const shown = (await app.lastAnswer()).text;
	await app.until('what is shown to be stored', async () => {
		const { messages } = await app.stored();
		return messages.at(-1).text.length >= shown.length;
	});
	await app.kill(dataDir);

	const again = await App.launch(dataDir);
	await again.one('notice', 60_000);
	assert.match(await again.words('notice'), /2 answers were interrupted when Braid last closed/);
	await again.picture('after-kill');
	await again.ready();
	await again.dismissNotices();
	assert.deepEqual(
		(await again.tabs()).map(({ conversationId }) => conversationId),
		tabs.map(({ conversationId }) => conversationId),
	);
	for (const tab of [first, first + 1]) {
		await again.showTab(tab);
		const answer = await again.until('the partial answer', () => again.lastAnswer());
		assert.equal(answer.state, 'interrupted');
		assert.ok(answer.text.length > 10, 'its text is kept');
		assert.ok((await again.count('continue')) > 0, 'it can go on');
	}
	assert.ok((await again.lastAnswer()).text.startsWith(shown.slice(0, 10)));
	await again.showTab(reader);
	assert.equal(await again.draft(), draft);
	await again.until('the reader’s place', async () => {
		const top = await again.run(
			`return document.querySelector('[data-testid="message"]').closest('[role="region"]').scrollTop;`,
		);
		return Math.abs(top - 240) < 30;
	});
	assert.deepEqual((await again.stored()).scroll, place);
	await again.picture('after-kill-reader');
	return again;
}

async function openSettings(app, section) {
	if ((await app.count('settings-view')) === 0) await app.click('open-settings');
	await app.click(`settings-${section}`);
}

export async function theReportHoldsNoMessage(app) {
	await openSettings(app, 'help');
	await app.click('diagnostics-make');
	await app.one('diagnostics');
	const report = await app.words('diagnostics');
	assert.match(report, /SmolLM2/);
	for (const said of [/mountain/i, /about to ask/i, /of a list/i]) assert.doesNotMatch(report, said);
	await app.picture('diagnostics');
}

export async function theBenchmarkRunsAndIsCancelled(app) {
	await openSettings(app, 'performance');
	await app.click('benchmark-start');
	await app.one('benchmark-now');
	await app.until('its first run', async () => /\d/.test((await app.words('benchmark-now')) ?? ''));
	await app.run(`document.querySelector('[data-testid="benchmark"]').scrollIntoView();`);
	await app.picture('benchmark');
	await app.click('benchmark-cancel');
	await app.until('it to be over', async () => (await app.facts('benchmark'))[0].running === 'false', 60_000);
	assert.equal(await app.count('benchmark-failure'), 0);
	await app.until('its rows to be gone', async () => (await app.count('lane')) === 0);
}

/** A port that nobody listens on. */
function freePort() {
	return new Promise((resolve, reject) => {
		const server = createServer();
		server.once('error', reject);
		server.listen(0, '127.0.0.1', () => {
			const { port } = server.address();
			server.close(() => resolve(port));
		});
	});
}

/** Text of a streamed answer, and how many pieces it came in. */
async function streamed(response) {
	const events = (await response.text())
		.split('\n')
		.filter((line) => line.startsWith('data: '))
		.map((line) => line.slice('data: '.length));
	assert.equal(events.at(-1), '[DONE]');
	const pieces = events
		.slice(0, -1)
		.flatMap((event) => JSON.parse(event).choices.map(({ delta }) => delta?.content ?? ''))
		.filter((piece) => piece !== '');
	return { text: pieces.join(''), pieces: pieces.length };
}

export async function otherProgramsAreAnsweredInTheSameBatch(app) {
	await openSettings(app, 'localServer');
	const port = await app.one('local-port');
	await port.sendKeys(Key.chord(Key.CONTROL, 'a'));
	await port.sendKeys(String(await freePort()));
	await app.click('local-switch');
	await app.one('local-address');
	await app.click('local-show-key');
	const [address, key] = [await app.words('local-address'), await app.words('local-key')];
	await app.picture('local-server');
	const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
	assert.equal((await fetch(`${address}/models`)).status, 401, 'not without the key');
	const { data } = await (await fetch(`${address}/models`, { headers })).json();
	assert.equal(data.length, 1);

	await app.click('settings-back');
	const tab = await app.openMoreTabs(1);
	await app.showTab(tab);
	await app.openOverlay();
	await app.recordOverlay();
	await app.ask('Write a very long story about a river.');
	await app.untilSomeText();
	const asked = fetch(`${address}/chat/completions`, {
		method: 'POST',
		headers,
		body: JSON.stringify({
			model: data[0].id,
			messages: [{ role: 'user', content: 'Count to twenty.' }],
			max_tokens: 48,
			stream: true,
		}),
	});
	await app.until(
		'a lane of the server beside the tab’s',
		async () =>
			(await app.samples()).some(
				({ lanes, batchRows }) =>
					batchRows === 2 &&
					lanes.some(({ source }) => source === 'server') &&
					lanes.some(({ source }) => source === 'tab'),
			),
		60_000,
	);
	await app.picture('server-lane');
	const response = await asked;
	assert.equal(response.status, 200);
	const { text, pieces } = await streamed(response);
	assert.ok(text.length > 10 && pieces > 1, `${pieces} pieces: ${text}`);
	if ((await app.lastAnswer()).state === 'streaming') await app.click('stop');
	await app.untilAnswered(20_000);
	await openSettings(app, 'localServer');
	await app.click('local-switch');
	await app.until('the server to be off', async () => (await app.count('local-address')) === 0);
	await assert.rejects(fetch(`${address}/models`, { headers }), 'nobody listens any more');
	await app.click('settings-back');
}
