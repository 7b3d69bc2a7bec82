// The real app with the real model: a person's first five minutes, four tabs at once, stop, structured output, versions,
// models, restart, accessibility, and the desk around the answers.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { App, fullest, required } from './driver.mjs';
import { startHub } from './hub.mjs';
import {
	anAnswerIsEditedContinuedAndBranched,
	filesGoAlongWithAQuestion,
	oneQuestionGetsFourAnswers,
	stopWorksInEachPhase,
} from './real-answers.mjs';
import {
	killedWhileTwoTabsAnswerItLosesNothing,
	otherProgramsAreAnsweredInTheSameBatch,
	theBenchmarkRunsAndIsCancelled,
	theReportHoldsNoMessage,
} from './real-desk.mjs';
import { firstFiveMinutes } from './real-first.mjs';
import {
	aModelIsFoundDownloadedAndAnswers,
	anotherModelTakesOver,
	prepareModels,
	unloadingSaysSoAndLosesNothing,
} from './real-models.mjs';

const prompts = [
	'Write a long story about a lighthouse keeper.',
	'Explain how bread is made, step by step, in detail.',
	'Describe the four seasons in detail.',
	'Write a long letter to a friend about a journey by train.',
];

async function fourTabsStreamAtOnce(app) {
	await app.openBlankTabs(prompts.length);
	for (const [i, prompt] of prompts.entries()) {
		await app.showTab(i);
		await app.type(prompt);
	}
	await app.openOverlay();
	await app.recordOverlay();
	for (const i of prompts.keys()) {
		await app.showTab(i);
		await app.pressEnter();
	}
	const together = await app.until(
		'four tabs to generate at once',
		async () => {
			const samples = fullest(await app.samples());
			return samples.length >= 2 && samples[0].lanes.length === 4 && samples[0].batchRows === 4
				? samples
				: null;
		},
		120_000,
	);
	for (const { lanes, batchRows, hostReads, waits } of together.filter((sample) => sample.batchRows === 4)) {
		assert.equal(batchRows, 4);
		assert.deepEqual(
			lanes.map((lane) => lane.path),
			['fused', 'fused', 'fused', 'fused'],
		);
		assert.equal(hostReads, 1, 'one host read for the whole batch');
		assert.equal(waits, 1, 'one blocking wait for the whole batch');
	}
	await app.picture('four-tabs');
}

async function stopKeepsThePartialAnswer(app) {
	for (const i of prompts.keys()) {
		await app.showTab(i);
		await app.until('some text', async () => ((await app.lastAnswer())?.text.length ?? 0) > 10, 60_000);
		const before = await app.lastAnswer();
		if (before.state === 'streaming') await app.click('stop');
		const answer = await app.until(
			'the answer to end after Stop',
			async () => {
				const shown = await app.lastAnswer();
				return shown.state !== 'streaming' ? shown : null;
			},
			10_000,
		);
		assert.ok(['stopped', 'complete'].includes(answer.state), `state is ${answer.state}`);
		if (i === 0) assert.equal(answer.state, 'stopped', 'a long story is not over within seconds');
		assert.ok(answer.text.length >= before.text.length - 2, 'stopping takes no text away');
	}
}

async function answersSurviveARestart(app, before) {
	await app.ready();
	await app.until('every tab to come back', async () => (await app.count('tab')) === before.length);
	for (const [i, text] of before.entries()) {
		await app.showTab(i);
		const answer = await app.until('the stored answer', () => app.lastAnswer());
		assert.equal(answer.text, text, `tab ${i + 1} shows what it showed before`);
	}
}

async function noSeriousAccessibilityFinding(app) {
	const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
	await app.run(axe);
	const findings = await app.runAsync(`
		const done = arguments[arguments.length - 1];
		axe.run({ resultTypes: ['violations'] }).then(
			({ violations }) => done(violations.map(({ id, impact, nodes }) => ({ id, impact, where: nodes[0].html.slice(0, 160) }))),
			(error) => done([{ id: String(error), impact: 'critical' }]),
		);
	`);
	const serious = findings.filter(({ impact }) => impact === 'serious' || impact === 'critical');
	assert.deepEqual(serious, []);
}

const citySchema = {
	type: 'object',
	properties: { city: { type: 'string', maxLength: 24 }, isLarge: { type: 'boolean' } },
	required: ['city', 'isLarge'],
	additionalProperties: false,
};

/** Settings are saved shortly after they are typed. */
const untilSaved = () => new Promise((resolve) => setTimeout(resolve, 600));

async function aSchemaIsFollowedBesidePlainTabs(app) {
	const schemaTab = await app.openMoreTabs(prompts.length);
	for (const i of prompts.keys()) {
		await app.showTab(schemaTab + i);
		await app.setSetting('maxTokens', i === 0 ? '80' : '160');
		if (i === 0) {
			await app.setSetting('seed', '7');
			await app.setStructure('jsonSchema', JSON.stringify(citySchema));
		}
		await untilSaved();
		await app.closeSettings();
		await app.type(i === 0 ? 'Which city is the capital of France? Answer in JSON.' : prompts[i]);
	}
	await app.recordOverlay();
	for (const i of [1, 2, 3, 0]) {
		await app.showTab(schemaTab + i);
		await app.pressEnter();
	}
	const answer = await app.untilAnswered(120_000);
	assert.equal(answer.problem, null);
	const parsed = JSON.parse(answer.text);
	assert.deepEqual(Object.keys(parsed).sort(), ['city', 'isLarge']);
	assert.equal(typeof parsed.city, 'string');
	assert.equal(typeof parsed.isLarge, 'boolean');
	assert.ok(answer.perRowSteps > 0, 'Split samples a row with a grammar on its own');
	assert.ok(answer.meanBatchRows > 1.5, `it ran beside other tabs, mean batch ${answer.meanBatchRows}`);
	const schemaId = (await app.tabs())[schemaTab].conversationId;
	const together = (await app.samples()).filter(
		({ lanes, batchRows }) => batchRows === 4 && lanes.every(({ path }) => path !== null),
	);
	assert.ok(together.length > 0, 'four rows were in the batch at once');
	for (const { conversationId, path, reasons, words } of together.flatMap(({ lanes }) => lanes)) {
		const isSchemaTab = conversationId === schemaId;
		assert.equal(
			path,
			isSchemaTab ? 'perRow' : 'fused',
			'only the tab with the schema leaves the fused step',
		);
		if (!isSchemaTab) continue;
		assert.deepEqual(reasons, ['structuredMask']);
		assert.match(words, /structured output/i);
	}
	await app.picture('schema');
	await app.untilAllIdle(180_000);
	for (const i of [1, 2, 3]) {
		await app.showTab(schemaTab + i);
		assert.equal((await app.lastAnswer()).problem, null);
	}
}

async function theSameSeedGivesTheSameText(app) {
	const tab = await app.openMoreTabs(1);
	await app.showTab(tab);
	await app.setSetting('temperature', '0.9');
	await app.setSetting('maxTokens', '40');
	await app.setSetting('logprobs', '3');
	await untilSaved();
	await app.closeSettings();
	await app.type('Tell me something about the sea.');
	await app.pressEnter();
	const first = await app.untilAnswered(120_000);
	await app.click('regenerate');
	const other = await app.untilVersion('2 / 2');
	assert.notEqual(other.seed, first.seed);
	await app.click('regenerate-same');
	const again = await app.untilVersion('3 / 3');
	assert.equal(again.seed, other.seed);
	assert.equal(again.text, other.text, 'the same seed, the same text');
	await app.click('previous-version');
	await app.untilVersion('2 / 3');
	await app.click('previous-version');
	assert.equal((await app.untilVersion('1 / 3')).text, first.text, 'no version is lost');
	return tab;
}

async function tokensShowTheirAlternatives(app, tab) {
	await app.showTab(tab);
	await app.click('show-tokens');
	await app.one('token');
	await (await app.all('token'))[1].click();
	await app.until('three alternatives', async () => (await app.count('alternative')) >= 3);
	await app.picture('tokens');
}

/** What a desk has around its answers, on a data folder of its own. */
async function theDesk(dataDir) {
	let app = await App.launch(dataDir);
	try {
		await app.ready();
		await stopWorksInEachPhase(app);
		console.log('ok: Stop works while queued, reading and answering');
		await oneQuestionGetsFourAnswers(app);
		console.log('ok: one question gets four answers from one reading; one is kept');
		await anAnswerIsEditedContinuedAndBranched(app);
		console.log('ok: an answer goes on, branches at a token, and its question is edited');
		await filesGoAlongWithAQuestion(app, join(dataDir, 'files'));
		console.log('ok: Markdown and PDF go along with a question, a binary file does not');
		app = await killedWhileTwoTabsAnswerItLosesNothing(app, dataDir);
		console.log('ok: killed while two tabs answer, it comes back with everything');
		await theReportHoldsNoMessage(app);
		console.log('ok: the diagnostics report holds no message');
		await theBenchmarkRunsAndIsCancelled(app);
		console.log('ok: the benchmark runs and is cancelled');
		await otherProgramsAreAnsweredInTheSameBatch(app);
		console.log('ok: other programs are answered in the same batch');
	} finally {
		await app.quit();
	}
}

await firstFiveMinutes(join(required('BRAID_DATA_DIR'), 'first'));
console.log('ok: the first five minutes');
await theDesk(join(required('BRAID_DATA_DIR'), 'desk'));
prepareModels();
const hub = await startHub(required('BRAID_STARTER_MODEL'));
let app = await App.launch();
try {
	await app.ready();
	await fourTabsStreamAtOnce(app);
	console.log('ok: four tabs stream at once, fused, batch 4, one host read per step');
	await stopKeepsThePartialAnswer(app);
	console.log('ok: Stop ends an answer and keeps its text');
	await noSeriousAccessibilityFinding(app);
	console.log('ok: axe has no serious finding in the web view');
	await aSchemaIsFollowedBesidePlainTabs(app);
	console.log('ok: a JSON schema is followed beside three plain tabs');
	const seedTab = await theSameSeedGivesTheSameText(app);
	console.log('ok: regenerating with the same seed gives the same text');
	await tokensShowTheirAlternatives(app, seedTab);
	console.log('ok: tokens show their alternatives');
	await anotherModelTakesOver(app);
	console.log('ok: another model takes over while a tab answers; its text is kept');
	await unloadingSaysSoAndLosesNothing(app);
	console.log('ok: a model is unloaded and loaded again');
	await aModelIsFoundDownloadedAndAnswers(app, hub.url);
	console.log('ok: a model is found on a hub, downloaded with a pause, loaded and asked');
	const texts = [];
	for (let i = 0; i < (await app.count('tab')); i += 1) {
		await app.showTab(i);
		texts.push((await app.lastAnswer()).text);
	}
	// Tabs are saved shortly after they change.
	await new Promise((resolve) => setTimeout(resolve, 800));
	await app.quit();
	app = await App.launch();
	await answersSurviveARestart(app, texts);
	await app.picture('after-restart');
	console.log('ok: tabs and answers survive a restart');
	await tokensShowTheirAlternatives(app, seedTab);
	console.log('ok: token details survive a restart');
} finally {
	await app.quit();
	hub.close();
}
