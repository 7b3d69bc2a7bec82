// Models in the real app: another one takes over while a tab answers, unloading loses nothing, and one from a hub is
// found, downloaded with a pause, loaded and asked.
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Key } from 'selenium-webdriver';
import { required } from './driver.mjs';
import { repo } from './hub.mjs';

/** Catalogue id of the model that the app starts with. */
export const starterId = () => basename(required('BRAID_STARTER_MODEL'));

/** Puts a second model, which is the starter under another name, and one without weights beside the starter. */
export function prepareModels() {
	const models = join(required('BRAID_DATA_DIR'), 'models');
	const starter = required('BRAID_STARTER_MODEL');
	mkdirSync(join(models, 'broken'), { recursive: true });
	writeFileSync(join(models, 'second.model.json'), JSON.stringify({ path: starter }));
	for (const file of ['config.json', 'tokenizer.json']) {
		symlinkSync(join(starter, file), join(models, 'broken', file));
	}
}

const row = (app, id) =>
	app.run(
		`const row = document.querySelector('[data-testid="model"][data-model-id="' + arguments[0] + '"]');
		return row && { state: row.dataset.state, words: row.innerText };`,
		id,
	);

const press = (app, id, button) =>
	app.until(`a click on ${button} of ${id}`, () =>
		app.run(
			`const found = document.querySelector(
				'[data-testid="model"][data-model-id="' + arguments[0] + '"] [data-testid="' + arguments[1] + '"]');
			found?.click();
			return found !== null;`,
			id,
			button,
		),
	);

const untilState = (app, id, state) =>
	app.until(`${id} to be ${state}`, async () => (await row(app, id))?.state === state, 60_000);

async function openModels(app) {
	if ((await app.count('models-view')) === 0) await app.click('open-models');
	await app.one('models-view');
}

async function load(app, id) {
	await openModels(app);
	await press(app, id, 'open-fit');
	const verdict = await app.one('verdict');
	const words = await verdict.getText();
	await app.picture(`fit-${id}`);
	await app.click('start-load');
	await untilState(app, id, 'loaded');
	return words;
}

/** Asks for a few words in a new tab. */
async function untilItSaysHello(app) {
	const tab = await app.openMoreTabs(1);
	await app.showTab(tab);
	await app.setSetting('maxTokens', '8');
	await new Promise((resolve) => setTimeout(resolve, 600));
	await app.closeSettings();
	await app.type('Say hello.');
	await app.pressEnter();
	const answer = await app.untilAnswered(60_000);
	assert.equal(answer.problem, null);
	assert.ok(answer.text.length > 0);
}

export async function anotherModelTakesOver(app) {
	const tab = await app.openMoreTabs(1);
	await app.showTab(tab);
	await app.type('Write a very long story about a ship.');
	await app.pressEnter();
	await app.until('some text', async () => ((await app.lastAnswer())?.text.length ?? 0) > 10, 60_000);
	await openModels(app);
	await untilState(app, starterId(), 'loaded');
	const broken = await row(app, 'broken');
	assert.equal(broken.state, 'unusable', broken.words);
	assert.ok((await load(app, 'second')).length > 0, 'the verdict has words');
	await app.picture('models');
	await app.showTab(tab);
	const answer = await app.untilAnswered(20_000);
	assert.ok(answer.text.length > 10, 'what was written is kept');
	assert.ok(answer.problem, 'the answer says why it ended');
	await app.click('regenerate');
	const again = await app.untilVersion('2 / 2');
	assert.equal(again.problem, null, 'the new model answers');
}

export async function unloadingSaysSoAndLosesNothing(app) {
	await openModels(app);
	await press(app, 'second', 'unload');
	await untilState(app, 'second', 'idle');
	await app.picture('unloaded');
	await load(app, starterId());
	await untilItSaysHello(app);
}

async function pointAt(app, url) {
	await app.run(`document.querySelector('[data-testid="hub-settings"]').open = true;`);
	const endpoint = await app.one('hub-endpoint');
	await endpoint.sendKeys(Key.chord(Key.CONTROL, 'a'));
	await endpoint.sendKeys(url);
	await app.click('save-hub');
}

const downloadPhase = (app) =>
	app.run(`return document.querySelector('[data-testid="download"]')?.dataset.phase ?? null;`);

const untilPhase = (app, phase) =>
	app.until(`the download to be ${phase}`, async () => (await downloadPhase(app)) === phase, 60_000);

export async function aModelIsFoundDownloadedAndAnswers(app, hubUrl) {
	await openModels(app);
	await app.click('section-more');
	await pointAt(app, hubUrl);
	await (await app.one('hub-search')).sendKeys('small');
	await app.one('remote-model');
	await app.run(`document.querySelector('[data-testid="remote-model"] button').click();`);
	await app.one('remote-runs');
	await app.picture('remote');
	await app.click('start-download');
	await app.click('pause-download');
	await untilPhase(app, 'paused');
	await app.picture('download-paused');
	await app.click('resume-download');
	await untilPhase(app, 'done');
	await app.click('load-now');
	await app.one('verdict');
	await app.click('start-load');
	await untilState(app, repo, 'loaded');
	await untilItSaysHello(app);
	await openModels(app);
	await app.click('section-here');
	await load(app, starterId());
}
