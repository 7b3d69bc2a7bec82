// What the performance overlay itself costs: `npm run build:fake`, then
// `node e2e/overlay-cost.mjs [--seconds 6] [--trials 8] [--tabs 8] [--out FOLDER]`.
// While all tabs stream at 80 tokens per second, the overlay is closed and open in turn; the first pair warms up.
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { preview } from 'vite';

const { values } = parseArgs({
	options: {
		seconds: { type: 'string', default: '6' },
		trials: { type: 'string', default: '8' },
		tabs: { type: 'string', default: '8' },
		out: { type: 'string' },
	},
});
const [seconds, trials, tabs] = [values.seconds, values.trials, values.tabs].map(Number);

const round = (number, digits = 2) => Number(number.toFixed(digits));
const quantile = (numbers, part) => {
	const sorted = [...numbers].sort((a, b) => a - b);
	return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
};
const median = (numbers) => quantile(numbers, 0.5);

/** Runs in the page: notes how long each frame took, until it is asked for them. */
function watchFrames() {
	window.braidFrames = [];
	let last = performance.now();
	const onFrame = (now) => {
		window.braidFrames.push(now - last);
		last = now;
		requestAnimationFrame(onFrame);
	};
	requestAnimationFrame(onFrame);
}

async function startStreams(page) {
	for (let i = 0; i < tabs; i += 1) {
		if (i > 0) await page.getByTestId('new-tab').click();
		await page.waitForFunction((n) => document.querySelectorAll('[data-testid="tab"]').length === n, i + 1);
		await page.getByTestId('composer').fill('Write a long text.');
		await page.getByTestId('composer').press('Enter');
		await page.locator('[data-testid=message][data-role=user]').waitFor();
	}
	await page
		.locator(`[data-testid=tab][data-phase=decoding]`)
		.nth(tabs - 1)
		.waitFor();
}

/** Thread time and frames of the page over one trial. */
async function trial(page, devtools) {
	const cpuMs = async () => {
		const { metrics } = await devtools.send('Performance.getMetrics');
		return 1000 * (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? 0);
	};
	await page.evaluate(() => (window.braidFrames = []));
	const before = await cpuMs();
	const startedAt = performance.now();
	await page.waitForTimeout(seconds * 1000);
	const tookS = (performance.now() - startedAt) / 1000;
	const spent = (await cpuMs()) - before;
	const frames = await page.evaluate(() => window.braidFrames);
	return {
		threadMsPerS: round(spent / tookS),
		threadMsPerFrame: round(spent / Math.max(1, frames.length)),
		framesPerS: round(frames.length / tookS, 1),
		frameMsP50: round(median(frames)),
		frameMsP95: round(quantile(frames, 0.95)),
	};
}

const server = await preview({
	mode: 'fake',
	build: { outDir: 'test-results/fake-app' },
	preview: { port: 0, host: '127.0.0.1', strictPort: false },
});
const { port } = server.httpServer.address();
const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
	args: ['--no-sandbox'],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 850 } });
const devtools = await page.context().newCDPSession(page);
// Time that the main thread ran: what else the machine does is not in it.
await devtools.send('Performance.enable', { timeDomain: 'threadTicks' });
await page.goto(`http://127.0.0.1:${port}/?scenario=load&rate=80`);
await page.getByTestId('composer').waitFor();
await page.evaluate(watchFrames);
await startStreams(page);

const loadBefore = loadavg().map((load) => round(load));
const arms = { closed: [], open: [] };
for (let i = 0; i <= trials; i += 1) {
	// The order turns round, so that a text that grows is no arm's advantage.
	for (const arm of i % 2 === 0 ? ['closed', 'open'] : ['open', 'closed']) {
		const isOpen = (await page.getByTestId('performance-overlay').count()) > 0;
		if (isOpen !== (arm === 'open')) await page.getByTestId('toggle-overlay').click();
		await page.waitForTimeout(400);
		const measured = await trial(page, devtools);
		if (i > 0) arms[arm].push(measured);
		console.log(i === 0 ? 'warm-up' : `trial ${i}`, arm, JSON.stringify(measured));
	}
}
const summary = Object.fromEntries(
	Object.entries(arms).map(([arm, measured]) => [
		arm,
		Object.fromEntries(
			Object.keys(measured[0]).map((figure) => {
				const all = measured.map((each) => each[figure]);
				return [figure, { median: median(all), min: Math.min(...all), max: Math.max(...all) }];
			}),
		),
	]),
);
const report = {
	command: `node e2e/overlay-cost.mjs --seconds ${seconds} --trials ${trials} --tabs ${tabs}`,
	browser: browser.version(),
	cpu: `${cpus().length} × ${cpus()[0].model}`,
	loadAverage: { before: loadBefore, after: loadavg().map((load) => round(load)) },
	summary,
	arms,
};
console.log(JSON.stringify(summary, null, 1));
if (values.out) {
	mkdirSync(values.out, { recursive: true });
	writeFileSync(join(values.out, 'overlay-cost.json'), `${JSON.stringify(report, null, '\t')}\n`);
}
await browser.close();
await server.close();
process.exit(0);
