// The real app with the real model: four tabs at once, stop, restart, accessibility.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { App, fullest } from './driver.mjs';

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
	await app.until('four tabs to come back', async () => (await app.count('tab')) === 4);
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

let app = await App.launch();
try {
	await app.ready();
	await fourTabsStreamAtOnce(app);
	console.log('ok: four tabs stream at once, fused, batch 4, one host read per step');
	await stopKeepsThePartialAnswer(app);
	console.log('ok: Stop ends an answer and keeps its text');
	await noSeriousAccessibilityFinding(app);
	console.log('ok: axe has no serious finding in the web view');
	const texts = [];
	for (const i of prompts.keys()) {
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
} finally {
	await app.quit();
}
