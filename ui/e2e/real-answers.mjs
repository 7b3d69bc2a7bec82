// Answers in the real app: Stop in each phase, several answers to one question, edited, continued and branched ones,
// and files that go along with a question.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Key } from 'selenium-webdriver';

/** Rows that the engine runs at once. */
const rowsAtOnce = 8;

/** Opens the choice of answers for a question, with `count` seeds. */
async function askSeveral(app, question, count) {
	await app.type(question);
	await app.click('ask-several');
	await app.one('fan-out');
	await app.until(`${count} seeds`, async () => {
		const lines = await app.count('variant-line');
		if (lines < count) await app.click('add-variant');
		return lines === count;
	});
	await app.click('fan-out-go');
	await app.until(`${count} answers side by side`, async () => (await app.count('compared')) === count);
}

async function untilPhase(app, phase, limitMs) {
	await app.until(`the tab to be ${phase}`, async () => (await app.phase()) === phase, limitMs);
}

/** Presses Stop; the tab must be free at once, its answer marked. Returns the answer. */
async function stop(app) {
	await app.click('stop');
	const answer = await app.untilAnswered(10_000);
	assert.equal(answer.state, 'stopped');
	await app.until('the tab to be free', async () => (await app.count('stop')) === 0);
	await untilPhase(app, 'stopped');
	return answer;
}

/** The model here does not think: thinking is stopped by tests of the engine only. */
export async function stopWorksInEachPhase(app) {
	await app.openOverlay();
	const crowd = await app.openMoreTabs(2);
	await app.showTab(crowd);
	await askSeveral(app, 'Tell me a long story about a fox.', rowsAtOnce);
	await app.until('every row to be taken', async () => (await app.count('lane')) === rowsAtOnce, 60_000);
	await app.showTab(crowd + 1);
	await app.ask('Is anybody there?');
	await untilPhase(app, 'queued');
	await app.picture('stop-queued');
	assert.equal((await stop(app)).text, '', 'nothing was written yet');

	await app.showTab(crowd);
	await app.click('stop-all');
	await app.until('every answer to be stopped', async () =>
		(await app.facts('compared')).every(({ state }) => state === 'stopped'),
	);
	await app.picture('eight-stopped');
	await app.showTab(crowd + 1);
	const line = 'The quick brown fox jumps over the lazy dog, and the dog does not mind at all. ';
	await app.put(line.repeat(200));
	await app.pressEnter();
	await untilPhase(app, 'prefilling');
	await app.picture('stop-prefilling');
	assert.equal((await stop(app)).text, '', 'nothing was written yet');

	const tab = await app.openMoreTabs(1);
	await app.showTab(tab);
	await app.ask('Write a very long story about a ship.');
	const before = await app.untilSomeText();
	assert.equal(await app.phase(), 'decoding');
	const { text } = await stop(app);
	assert.ok(text.startsWith(before.text.slice(0, 10)), 'what was written is kept');
	assert.equal(await app.words('answer-state'), 'Stopped by you. What was written is kept.');
	await app.ask('Go on with another story.');
	await app.untilSomeText();
	await stop(app);
}

export async function oneQuestionGetsFourAnswers(app) {
	const tab = await app.openMoreTabs(1);
	await app.showTab(tab);
	await app.setSetting('maxTokens', '32');
	await app.settingsAre({ maxTokens: 32 });
	await app.openOverlay();
	await app.recordOverlay();
	await askSeveral(app, 'Name a colour and say why you like it.', 4);
	await app.until(
		'four answers',
		async () => (await app.facts('compared')).every(({ state }) => state === 'complete'),
		60_000,
	);
	const lanes = Math.max(...(await app.samples()).map((sample) => sample.lanes.length));
	assert.equal(lanes, 4, 'each answer is a lane');
	const compared = await app.facts('compared');
	const cached = compared.map(({ cachedTokens }) => Number(cachedTokens)).sort((a, b) => a - b);
	assert.ok(cached[1] > 10, `three of four share what the first read: ${cached}`);
	assert.ok(cached[0] < cached[1], `one of them read it: ${cached}`);
	await app.picture('four-answers');
	const [, second] = await app.run(
		`return [...document.querySelectorAll('[data-testid="compared"]')].map(
			(column) => column.querySelector('[data-testid="answer-text"]')?.innerText.trim() ?? '');`,
	);
	await (await app.all('keep'))[1].click();
	assert.equal((await app.untilVersion('2 / 4')).text, second);
	const { messages } = await app.stored();
	assert.equal(messages.length, 2, 'a question and the answer that was kept');
	assert.deepEqual(
		messages[1].versionIds,
		compared.map(({ answerId }) => answerId),
		'the other answers stay as versions',
	);
	return tab;
}

export async function anAnswerIsEditedContinuedAndBranched(app) {
	const tab = await app.openMoreTabs(1);
	await app.showTab(tab);
	await app.setSetting('maxTokens', '16');
	await app.setSetting('logprobs', '3');
	await app.settingsAre({ maxTokens: 16, logprobs: 3 });
	await app.ask('Describe a forest in a long text.');
	const first = await app.untilAnswered(60_000);
	assert.equal(first.answerTokens, 16);

	await app.setSetting('maxTokens', '24');
	await app.settingsAre({ maxTokens: 24 });
	await app.click('continue');
	const longer = await app.until(
		'the answer to have gone on',
		async () => {
			const shown = await app.lastAnswer();
			return shown.state === 'complete' && shown.answerTokens > 16 ? shown : null;
		},
		60_000,
	);
	assert.ok(longer.text.startsWith(first.text), `${longer.text} goes on from ${first.text}`);
	assert.ok(longer.text.length > first.text.length);
	assert.equal(longer.version, null, 'it is the same answer, longer');
	await app.picture('continued');

	await app.click('show-tokens');
	await app.one('token');
	await (await app.all('token'))[3].click();
	await app.one('branch');
	await app.click('branch');
	const branched = await app.untilVersion('2 / 2');
	assert.equal(branched.problem, null);
	const tokens = (await app.stored()).messages[1].id;
	const [details, before] = await Promise.all(
		[tokens, (await app.stored()).messages[1].versionIds[0]].map((messageId) =>
			app.invoke('read_token_details', { messageId }),
		),
	);
	assert.deepEqual(
		details.slice(0, 3).map(({ token }) => token),
		before.slice(0, 3).map(({ token }) => token),
		'the same up to the branch',
	);
	assert.notEqual(details[3].token, before[3].token, 'another token there');
	await app.picture('branched');

	await app.run(`document.querySelector('[data-testid="edit-question"]').click();`);
	const editor = await app.one('edit-text');
	await editor.sendKeys(Key.chord(Key.CONTROL, 'a'));
	await editor.sendKeys('Describe a lake.', Key.ENTER);
	await app.until('the question’s second version', async () =>
		/Describe a lake\.[^]*2 \/ 2/.test(await app.words('message')),
	);
	const other = await app.untilAnswered(60_000);
	assert.equal(other.version, null, 'a new question has one answer');
	await app.click('previous-version');
	await app.until('the first question again', async () => (await app.lastAnswer())?.text === branched.text);
}

/** The smallest PDF that says something. */
function pdf(text) {
	const stream = `BT /F1 18 Tf 72 720 Td (${text}) Tj ET`;
	const objects = [
		'<< /Type /Catalog /Pages 2 0 R >>',
		'<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
		'<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>',
		`<< /Length ${stream.length} >>\nstream\n${stream}\nendstream`,
		'<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>',
	];
	let file = '%PDF-1.4\n';
	const offsets = objects.map((object, i) => {
		const offset = file.length;
		file += `${i + 1} 0 obj\n${object}\nendobj\n`;
		return String(offset).padStart(10, '0');
	});
	const table = file.length;
	const entries = offsets.map((offset) => `${offset} 00000 n \n`).join('');
	return `${file}xref\n0 6\n0000000000 65535 f \n${entries}trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n${table}\n%%EOF\n`;
}

/** WebDriver cannot reach the system's file dialog: the page is told what it would have answered. */
function answerFileDialog(app, paths) {
	return app.run(
		`const asked = window.fetch;
		window.fetch = (address, ...rest) => {
			if (!String(address).includes('pick_attachments')) return asked(address, ...rest);
			window.fetch = asked;
			const headers = { 'Content-Type': 'application/json', 'Tauri-Response': 'ok' };
			return Promise.resolve(new Response(JSON.stringify(arguments[0]), { headers }));
		};`,
		paths,
	);
}

export async function filesGoAlongWithAQuestion(app, folder) {
	mkdirSync(folder, { recursive: true });
	const files = {
		'notes.md': '# Notes\n\nThe meeting is on Tuesday.\n',
		'report.pdf': pdf('The harvest was good this year.'),
		'picture.bin': Buffer.from([0, 1, 2, 3, 255, 254, 0, 0, 137, 80]),
	};
	const paths = Object.entries(files).map(([name, content]) => {
		writeFileSync(join(folder, name), content);
		return join(folder, name);
	});
	const tab = await app.openMoreTabs(1);
	await app.showTab(tab);
	await app.setSetting('maxTokens', '16');
	await app.settingsAre({ maxTokens: 16 });
	await answerFileDialog(app, paths);
	await app.click('attach');
	await app.one('attachment-refused');
	assert.match(await app.words('attachment-refused'), /picture\.bin.*This cannot be attached/s);
	await app.until('two files to be attached', async () => (await app.count('attachment')) === 2);
	const attached = (await app.stored()).draftAttachments;
	assert.deepEqual(
		attached.map(({ name, kind }) => [name, kind]),
		[
			['notes.md', 'markdown'],
			['report.pdf', 'pdf'],
		],
	);
	assert.ok(
		attached.every(({ tokens }) => tokens > 5),
		'their tokens are counted',
	);
	assert.match(await app.invoke('read_attachment', { attachmentId: attached[1].id }), /The harvest was good/);
	await app.until('what is free to be said', async () => /free/.test(await app.words('attachment-room')));
	await app.picture('attached');
	await app.ask('What do they say?');
	const answer = await app.untilAnswered(60_000);
	assert.equal(answer.problem, null);
	const { messages, draftAttachments } = await app.stored();
	assert.deepEqual(draftAttachments, []);
	assert.equal(messages[0].attachments.length, 2);
	const needed = attached.reduce((sum, { tokens }) => sum + tokens, 0);
	assert.ok(messages[1].receipt.promptTokens > needed, 'the model read them');
}
