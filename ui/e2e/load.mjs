// Typing, scrolling and memory while answers stream: `npm run build:fake`, then
// `node e2e/load.mjs [--seconds 60] [--tabs 8] [--rate 80] [--browser chromium|webkit|both] [--out FOLDER]`.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { Builder, By, Capabilities, Key } from 'selenium-webdriver';
import { preview } from 'vite';

const { values } = parseArgs({
	options: {
		seconds: { type: 'string', default: '60' },
		tabs: { type: 'string', default: '8' },
		rate: { type: 'string', default: '80' },
		browser: { type: 'string', default: 'both' },
		out: { type: 'string' },
	},
});
const seconds = Number(values.seconds);
const tabs = Number(values.tabs);
const rate = Number(values.rate);
const keyEveryMs = 250;
const sampleEveryMs = 10_000;

/** Runs in the page: notes every gap between frames, every long task, and how long each key took to the screen. */
function watchPage() {
	const seen = { gaps: [], longTasks: [], keys: [], frames: 0, isMeasuring: false };
	window.braidLoad = seen;
	let last = performance.now();
	const onFrame = (now) => {
		seen.frames += 1;
		if (now - last > 50 && !seen.isMeasuring) seen.gaps.push(Math.round(now - last));
		last = now;
		requestAnimationFrame(onFrame);
	};
	requestAnimationFrame(onFrame);
	if (PerformanceObserver.supportedEntryTypes.includes('longtask')) {
		new PerformanceObserver((list) => {
			if (!seen.isMeasuring)
				for (const { duration } of list.getEntries()) seen.longTasks.push(Math.round(duration));
		}).observe({ type: 'longtask' });
	}
	// From the key (its own time, not that of the handler) to the task after the frame that shows its letter.
	addEventListener(
		'keydown',
		(event) => {
			requestAnimationFrame(() => {
				const { port1, port2 } = new MessageChannel();
				port1.onmessage = () => seen.keys.push(performance.now() - event.timeStamp);
				port2.postMessage(null);
			});
		},
		{ capture: true },
	);
}

const quantile = (numbers, part) => {
	const sorted = [...numbers].sort((a, b) => a - b);
	return sorted.length === 0 ? null : sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
};
const round = (number, digits = 1) => (number === null ? null : Number(number.toFixed(digits)));

/** What both browsers can do, by name: the steps of the run are written once. */
async function openChromium(baseUrl) {
	const browser = await chromium.launch({
		executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
		args: ['--no-sandbox', '--enable-precise-memory-info'],
	});
	const context = await browser.newContext({ viewport: { width: 1280, height: 850 } });
	const page = await context.newPage();
	const problems = [];
	page.on('pageerror', (error) => problems.push(error.message));
	const devtools = await context.newCDPSession(page);
	await devtools.send('Performance.enable');
	await devtools.send('HeapProfiler.enable');
	return {
		name: `Chromium ${browser.version()}`,
		problems,
		go: (path) => page.goto(`${baseUrl}${path}`),
		run: (source, argument) => page.evaluate(`(${source})(${JSON.stringify(argument ?? null)})`),
		click: (selector, index = 0) => page.locator(selector).nth(index).click(),
		key: (key) => page.keyboard.press(key),
		focus: (selector) => page.locator(selector).focus(),
		async memory() {
			await devtools.send('HeapProfiler.collectGarbage');
			const { metrics } = await devtools.send('Performance.getMetrics');
			const of = (name) => metrics.find((metric) => metric.name === name)?.value ?? null;
			return {
				heapMb: round(of('JSHeapUsedSize') / 1e6),
				nodes: of('Nodes'),
				rssMb: rssOf(/--type=renderer/),
			};
		},
		close: () => browser.close(),
	};
}

async function openWebKit(baseUrl) {
	const port = 4477;
	const driver = spawn('WebKitWebDriver', [`--port=${port}`], { stdio: 'ignore' });
	await new Promise((resolve) => setTimeout(resolve, 1500));
	const folder = readdirSync('/usr/lib').find((name) => name.endsWith('-linux-gnu'));
	const capabilities = new Capabilities({
		browserName: 'MiniBrowser',
		'webkitgtk:browserOptions': {
			binary: `/usr/lib/${folder}/webkit2gtk-4.1/MiniBrowser`,
			args: ['--automation'],
		},
	});
	const session = await new Builder()
		.usingServer(`http://127.0.0.1:${port}`)
		.withCapabilities(capabilities)
		.build();
	await session.manage().window().setRect({ width: 1280, height: 900 });
	const named = { Enter: Key.ENTER, Backspace: Key.BACK_SPACE };
	let focused = null;
	return {
		name: `WebKitGTK ${execFileSync('pkg-config', ['--modversion', 'webkit2gtk-4.1']).toString().trim()}`,
		problems: [],
		go: (path) => session.get(`${baseUrl}${path}`),
		run: (source, argument) => session.executeScript(`return (${source})(arguments[0]);`, argument ?? null),
		click: async (selector, index = 0) => (await session.findElements(By.css(selector)))[index].click(),
		key: (key) => focused.sendKeys(named[key] ?? key),
		focus: async (selector) => void (focused = await session.findElement(By.css(selector))),
		memory: async () => ({ heapMb: null, nodes: null, rssMb: rssOf(/WebKitWebProcess/) }),
		async close() {
			await session.quit();
			driver.kill();
		},
	};
}

/** Resident memory of the largest process whose command line matches, in MB. */
function rssOf(pattern) {
	const sizes = readdirSync('/proc')
		.filter((name) => /^\d+$/.test(name))
		.flatMap((pid) => {
			try {
				if (!pattern.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))) return [];
				const kb = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
				return [Number(kb ?? 0) / 1000];
			} catch {
				return [];
			}
		});
	return round(Math.max(0, ...sizes));
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(what, probe, limitMs = 30_000) {
	for (const end = Date.now() + limitMs; ; await pause(40)) {
		const value = await probe();
		if (value) return value;
		if (Date.now() > end) throw new Error(`waited for: ${what}`);
	}
}

/** Opens the conversation of 400 messages: from the click to the frame that shows its end. */
async function openLong(browser) {
	const openings = [];
	for (let trial = 0; trial < 5; trial += 1) {
		await browser.go('/?scenario=long');
		await until('the list', () =>
			browser.run(`() => document.querySelectorAll('[data-testid="conversation"]').length >= 4`),
		);
		await pause(1000);
		await browser.run(watchPage.toString());
		await browser.run(`() => {
			const row = [...document.querySelectorAll('[data-testid="conversation"]')]
				.find((other) => other.textContent.includes('Capital of France'));
			const start = performance.now();
			const look = () => {
				const last = document.querySelector('[data-message-id="1400"]');
				const viewport = last?.closest('[role="region"]');
				const isShown = last && last.querySelector('[data-testid="answer-text"]')
					&& viewport.scrollHeight - viewport.scrollTop - viewport.clientHeight < 2;
				if (!isShown) return void requestAnimationFrame(look);
				requestAnimationFrame(() => setTimeout(() => (window.braidOpenedMs = performance.now() - start)));
			};
			requestAnimationFrame(look);
			(row.querySelector('button') ?? row).click();
		}`);
		openings.push(await until('the end of it', () => browser.run('() => window.braidOpenedMs ?? null')));
		if (trial < 4) continue;
	}
	await pause(1500);
	const opened = await browser.run('() => window.braidLoad');
	await browser.run('() => void (window.braidLoad.gaps.length = window.braidLoad.longTasks.length = 0)');
	// Up through all of it, a third of a screen a frame; then how far the text moved by itself is known.
	const scrolled = await browser.run(`() => {
		const viewport = document.querySelector('[data-message-id="1400"]').closest('[role="region"]');
		const seen = { frames: 0, jumps: [], startedMs: performance.now(), doneMs: null };
		window.braidScroll = seen;
		const next = () => {
			seen.frames += 1;
			const box = viewport.getBoundingClientRect();
			const held = [...viewport.firstElementChild.children].find((item) => item.getBoundingClientRect().bottom > box.top + 300);
			const before = held.getBoundingClientRect().top;
			const byPx = Math.min(viewport.scrollTop, 250);
			viewport.scrollTop -= byPx;
			requestAnimationFrame(() => setTimeout(() => {
				if (!held.isConnected) return void next();
				const moved = held.getBoundingClientRect().top - before;
				if (Math.abs(moved - byPx) > 2) seen.jumps.push(Math.round(moved - byPx));
				if (viewport.scrollTop > 0 && performance.now() - seen.startedMs < 20_000) next();
				else seen.doneMs = performance.now() - seen.startedMs;
			}));
		};
		next();
	}`);
	void scrolled;
	const scroll = await until(
		'the top of it',
		() => browser.run('() => (window.braidScroll.doneMs === null ? null : window.braidScroll)'),
		300_000,
	);
	const while_ = await browser.run('() => window.braidLoad');
	return {
		openMs: openings.map((ms) => Math.round(ms)),
		gapsAfterOpenMs: opened.gaps,
		longTasksAfterOpenMs: opened.longTasks,
		scroll: {
			frames: scroll.frames,
			msPerFrame: round(scroll.doneMs / scroll.frames),
			jumpsPx: scroll.jumps,
			longestGapMs: Math.max(0, ...while_.gaps),
			gapsOver100Ms: while_.gaps.filter((ms) => ms > 100).length,
			longTasksMs: while_.longTasks,
		},
		memory: await browser.memory(),
	};
}

/** All tabs stream while somebody types the next message, and now and then looks at another tab. */
async function stream(browser) {
	await browser.go(`/?scenario=load&rate=${rate}`);
	const composer = '[data-testid="composer"]';
	await until('the composer', () => browser.run(`() => document.querySelector('${composer}') !== null`));
	for (let i = 1; i < tabs; i += 1) {
		await browser.click('[data-testid="new-tab"]');
		await until('the tab', () =>
			browser.run(`() => document.querySelectorAll('[data-testid="tab"]').length`).then((n) => n > i),
		);
	}
	const ask = async (i) => {
		await browser.click('[data-testid="tab"]', i);
		await browser.focus(composer);
		await browser.run(`() => {
			const area = document.querySelector('${composer}');
			area.value = 'Write a long text';
			area.dispatchEvent(new InputEvent('input', { bubbles: true }));
		}`);
		await browser.key('Enter');
	};
	for (let i = 0; i < tabs; i += 1) await ask(i);
	await browser.run(watchPage.toString());
	const begun = Date.now();
	const samples = [];
	const switches = [];
	const loads = [];
	let longest = 0;
	let shown = tabs - 1;
	let nextSample = 0;
	let typed = 0;
	while (Date.now() - begun < seconds * 1000) {
		const turn = Date.now();
		if (turn - begun >= nextSample) {
			nextSample += sampleEveryMs;
			const state = await browser.run(`() => ({
				characters: [...document.querySelectorAll('[data-testid="answer-text"]')].pop()?.textContent.length ?? 0,
				phases: [...document.querySelectorAll('[data-testid="tab"]')].map((tab) => tab.dataset.phase),
			})`);
			longest = Math.max(longest, state.characters);
			// Collecting garbage to count what is alive stops the page: that is not the app's doing.
			await browser.run('() => void (window.braidLoad.isMeasuring = true)');
			samples.push({ s: Math.round((turn - begun) / 1000), ...(await browser.memory()), ...state });
			loads.push(loadavg()[0]);
			await pause(150);
			await browser.run('() => void (window.braidLoad.isMeasuring = false)');
			const idle = state.phases.findIndex((phase) => phase === 'idle');
			if (idle >= 0) {
				await ask(idle);
				shown = idle;
			} else if (samples.length % 2 === 0) {
				shown = (shown + 1) % tabs;
				const before = (await browser.run('() => window.braidLoad.gaps')).length;
				await browser.click('[data-testid="tab"]', shown);
				await pause(600);
				switches.push(...(await browser.run('() => window.braidLoad.gaps')).slice(before));
			}
			await browser.focus(composer);
		}
		// A word, a space; now and then all of it is taken back.
		typed += 1;
		await browser.key(typed % 7 === 0 ? ' ' : typed % 90 > 60 ? 'Backspace' : 'abcdefghij'[typed % 10]);
		await pause(Math.max(0, keyEveryMs - (Date.now() - turn)));
	}
	const seen = await browser.run('() => window.braidLoad');
	const took = (Date.now() - begun) / 1000;
	const later = samples.filter(({ s }) => s >= seconds / 3);
	return {
		seconds: Math.round(took),
		longestAnswerCharacters: longest,
		keys: seen.keys.length,
		keyMs: {
			p50: round(quantile(seen.keys, 0.5)),
			p95: round(quantile(seen.keys, 0.95)),
			p99: round(quantile(seen.keys, 0.99)),
			most: round(quantile(seen.keys, 1)),
		},
		framesPerS: round(seen.frames / took),
		gapsOver50Ms: seen.gaps.length,
		longestGapMs: Math.max(0, ...seen.gaps),
		gapsOver200Ms: seen.gaps.filter((ms) => ms > 200),
		longTasks: seen.longTasks.length,
		longestTaskMs: Math.max(0, ...seen.longTasks),
		tabSwitchGapsMs: switches,
		memory: { first: later[0], last: later[later.length - 1] },
		loadAverage: loads.length === 0 ? null : { p50: quantile(loads, 0.5), most: Math.max(...loads) },
		samples,
		problems: browser.problems,
	};
}

const server = await preview({
	mode: 'fake',
	build: { outDir: 'test-results/fake-app' },
	preview: { port: 0, host: '127.0.0.1' },
});
const baseUrl = `http://127.0.0.1:${server.httpServer.address().port}`;
const results = [];
for (const [name, open] of [
	['chromium', openChromium],
	['webkit', openWebKit],
]) {
	if (values.browser !== 'both' && values.browser !== name) continue;
	const browser = await open(baseUrl);
	try {
		const long = await openLong(browser);
		console.log(JSON.stringify({ browser: browser.name, long }));
		const load = seconds > 0 ? await stream(browser) : null;
		console.log(JSON.stringify({ ...load, samples: undefined }));
		results.push({ browser: browser.name, long, load });
	} finally {
		await browser.close();
	}
}
await server.close();
if (values.out) {
	mkdirSync(values.out, { recursive: true });
	const machine = { cpu: cpus()[0]?.model, cores: cpus().length, memoryMb: Math.round(totalmem() / 1e6) };
	const raw = { command: `node e2e/load.mjs ${process.argv.slice(2).join(' ')}`, machine, results };
	writeFileSync(join(values.out, 'raw.json'), `${JSON.stringify(raw, null, '\t')}\n`);
}
process.exit(0);
