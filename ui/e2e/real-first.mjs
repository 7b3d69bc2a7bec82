// A person's first five minutes in the real app: first start, first answer, a second tab while the first streams,
// the overlay, an answer in JSON, a restart, and search.
import assert from 'node:assert/strict';
import { Key } from 'selenium-webdriver';
import { App, fullest } from './driver.mjs';

const personSchema = {
	type: 'object',
	properties: { name: { type: 'string', maxLength: 16 }, isAdult: { type: 'boolean' } },
	required: ['name', 'isAdult'],
	additionalProperties: false,
};

async function firstStart(app) {
	await app.one('welcome', 60_000);
	await app.until('the caret to be in the composer', () =>
		app.run(`return document.activeElement?.dataset.testid === 'composer';`),
	);
	await app.ready();
	await app.picture('first-start');
}

async function twoTabsAnswerAtOnce(app) {
	await app.press('Write a long story about a lighthouse keeper.', Key.ENTER);
	await app.untilSomeText();
	assert.equal(await app.count('welcome'), 0, 'whoever asks needs no welcome');
	await app.pressWithControl('t');
	await app.until(
		'the second tab',
		async () => (await app.count('tab')) === 2 && (await app.count('empty-chat')) === 1,
	);
	await app.openOverlay();
	await app.recordOverlay();
	await app.press('Write a long letter about the sea.', Key.ENTER);
	await app.until(
		'two lanes in one batch',
		async () => fullest(await app.samples())[0]?.lanes.length === 2,
		60_000,
	);
	await app.untilSomeText();
	await app.picture('first-two-tabs');
	for (const tab of [0, 1]) {
		await app.showTab(tab);
		if ((await app.lastAnswer()).state === 'streaming') await app.click('stop');
		await app.untilAnswered(20_000);
	}
}

async function anAnswerInJson(app) {
	const tab = await app.openMoreTabs(1);
	await app.showTab(tab);
	await app.setSetting('maxTokens', '80');
	await app.setStructure('jsonSchema', JSON.stringify(personSchema));
	await app.settingsAre({ maxTokens: 80 });
	await app.ask('Make up a person.');
	const answer = await app.untilAnswered(60_000);
	assert.equal(answer.problem, null);
	const parsed = JSON.parse(answer.text);
	assert.deepEqual(Object.keys(parsed).sort(), ['isAdult', 'name']);
	assert.deepEqual([typeof parsed.name, typeof parsed.isAdult], ['string', 'boolean']);
	await app.picture('first-json');
}

/** Text of every tab's last answer. */
export async function textsOf(app) {
	const texts = [];
	for (let i = 0; i < (await app.count('tab')); i += 1) {
		await app.showTab(i);
		texts.push((await app.until('the answer', () => app.lastAnswer())).text);
	}
	return texts;
}

async function searchOpensAtTheMessage(app) {
	await app.pressWithControl('f');
	await app.one('search');
	await app.press('lightho');
	await app.one('search-hit');
	await app.until('the match to be marked', () =>
		app.run(
			`return document.querySelector('[data-testid="search-hit"] mark')?.innerText.toLowerCase() === 'lightho';`,
		),
	);
	await app.picture('first-search');
	await app.press(Key.ENTER);
	await app.until('the question to be in sight', () =>
		app.run(`
			const asked = document.querySelector('[data-testid="message"][data-role="user"]');
			const list = asked?.closest('[role="region"]')?.getBoundingClientRect();
			const { top } = asked?.getBoundingClientRect() ?? {};
			return list !== undefined && asked.innerText.includes('lighthouse') && top >= list.top && top < list.bottom;
		`),
	);
	const [first] = await app.tabs();
	const shown = await app.run(
		`return document.querySelector('[data-testid="tab"][aria-selected="true"]').dataset.conversationId;`,
	);
	assert.equal(shown, first.conversationId, 'the tab that holds it is shown');
}

export async function firstFiveMinutes(dataDir) {
	let app = await App.launch(dataDir);
	try {
		await firstStart(app);
		await twoTabsAnswerAtOnce(app);
		await anAnswerInJson(app);
		const texts = await textsOf(app);
		const draft = 'And what is the name of';
		await app.type(draft);
		await app.until('the draft to be stored', async () => (await app.stored()).draft === draft);
		await app.quit();
		app = await App.launch(dataDir);
		await app.ready();
		await app.until('every tab to come back', async () => (await app.count('tab')) === texts.length);
		assert.equal(await app.draft(), draft, 'the last tab is shown again, with what was typed in it');
		assert.equal(await app.count('welcome'), 0);
		assert.deepEqual(await textsOf(app), texts);
		await searchOpensAtTheMessage(app);
	} finally {
		await app.quit();
	}
}
