// `cargo xtask app --headless`: asks four things in four tabs of the real app and reports what its screen says.
import { writeFileSync } from 'node:fs';
import { App, fullest } from './driver.mjs';

const prompts = [
	'What is the capital of France?',
	'Explain in two sentences why the sky is blue.',
	'List three tips for sleeping well.',
	'Write a four-line poem about the sea.',
];

const app = await App.launch();
try {
	await app.ready();
	await app.openBlankTabs(prompts.length);
	for (const [i, prompt] of prompts.entries()) {
		await app.showTab(i);
		// One tab greedy, the others with the settings they were born with: in Split mode both share the fused step.
		await app.setSetting(i === 0 ? 'temperature' : 'seed', i === 0 ? '0' : String(i));
		await new Promise((resolve) => setTimeout(resolve, 500));
		await app.closeSettings();
		await app.type(prompt);
	}
	await app.openOverlay();
	await app.recordOverlay();
	// The shortest answer starts last, so that all four run together.
	for (const i of [3, 2, 1, 0]) {
		await app.showTab(i);
		await app.pressEnter();
		await app.until('the message to be sent', async () => (await app.lastAnswer()) !== null);
	}
	// The picture is of four tabs at work; a quick machine may be past that already.
	await app.until(
		'all four to generate, or one to be done',
		async () => {
			const seen = (await app.samples()).some(
				({ lanes }) => lanes.filter(({ path }) => path !== null).length === 4,
			);
			return seen || (await app.tabs()).some(({ phase }) => phase === 'idle');
		},
		300_000,
	);
	await app.picture('four-tabs-answering');
	await app.untilAllIdle(900_000);

	const samples = await app.samples();
	const together = fullest(samples);
	const batch = Math.max(
		0,
		...samples.flatMap(({ batchRows, largestBatch }) => [batchRows ?? 0, largestBatch ?? 0]),
	);
	const ofBatch = samples.filter((sample) => sample.batchRows === batch);
	const counted = ofBatch.length > 0 ? ofBatch : together;
	const strip = await app.tabs();

	const tabs = [];
	for (const [i, prompt] of prompts.entries()) {
		await app.showTab(i);
		const answer = await app.until('the answer', async () => {
			const shown = await app.lastAnswer();
			return shown && shown.state !== 'streaming' ? shown : null;
		});
		if (answer.state === 'failed') throw new Error(`tab ${i + 1} failed: ${answer.problem}`);
		const lanes = samples.flatMap((sample) =>
			sample.lanes.filter((lane) => lane.conversationId === strip[i].conversationId),
		);
		tabs.push({
			prompt,
			answer: answer.text,
			path: answer.perRowSteps === 0 ? 'fused' : answer.fusedSteps === 0 ? 'perRow' : 'mixed',
			reasons: [...new Set(lanes.flatMap((lane) => lane.reasons))],
			tok_s: answer.tokS,
			ttft_ms: answer.ttftMs,
			tokens: answer.answerTokens,
			mean_batch: answer.meanBatchRows,
		});
		await app.picture(`tab-${i + 1}`);
	}
	const most = (values) => Math.max(0, ...values.map((value) => value ?? 0));
	const report = {
		tabs: tabs.map(({ prompt, answer, path, reasons, tok_s, ttft_ms }) => ({
			prompt,
			answer,
			path,
			reasons,
			tok_s,
			ttft_ms,
		})),
		batch,
		waits_per_step: most(counted.map((sample) => sample.waits)),
	};

	for (const { prompt, answer } of tabs) console.log(`\n> ${prompt}\n${answer}`);
	console.log('');
	console.table(
		Object.fromEntries(
			tabs.map((tab, i) => [
				`tab ${i + 1}`,
				{
					path: tab.path,
					reasons: tab.reasons.join(', ') || '-',
					'tok/s': tab.tok_s?.toFixed(1) ?? '-',
					'TTFT ms': tab.ttft_ms?.toFixed(0) ?? '-',
					tokens: tab.tokens,
					'mean batch': tab.mean_batch?.toFixed(2) ?? '-',
				},
			]),
		),
	);
	console.log(
		`batch ${batch} · evals per step ${most(counted.map((sample) => sample.evals))} · ` +
			`waits per step ${report.waits_per_step} · ` +
			`host reads per step ${most(counted.map((sample) => sample.hostReads))} · ` +
			`all tabs ${most(together.map((sample) => sample.totalTokS)).toFixed(1)} tok/s`,
	);
	if (process.env.BRAID_JSON)
		writeFileSync(process.env.BRAID_JSON, `${JSON.stringify(report, null, '\t')}\n`);

	await app.click('open-settings');
	await app.one('settings-view');
	await app.run(`document.querySelector('[data-testid="theme"] input[value="dark"]').click()`);
	await app.picture('settings-dark');
	await app.run(`document.querySelector('[data-testid="theme"] input[value="system"]').click()`);
} finally {
	await app.quit();
}
