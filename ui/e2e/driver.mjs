import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Builder, By, Capabilities, Key } from 'selenium-webdriver';
import { pidsOf, programFor } from './program.mjs';

/** Value of an environment variable that `cargo xtask` sets. */
export function required(name) {
	const value = process.env[name];
	if (!value) throw new Error(`${name} is not set; run this through cargo xtask`);
	return value;
}

const byTestId = (name) => By.css(`[data-testid="${name}"]`);

/** The real app, driven as a person drives it: clicks, keys, and what stands on the screen. */
export class App {
	#session;

	constructor(session) {
		this.#session = session;
	}

	/** Starts the app; with `dataDir` on a data folder of its own. */
	static async launch(dataDir) {
		const application =
			dataDir === undefined ? required('BRAID_APP') : programFor(required('BRAID_APP'), dataDir);
		const capabilities = new Capabilities({ browserName: 'wry', 'tauri:options': { application } });
		const session = await new Builder()
			.usingServer(required('WEBDRIVER_URL'))
			.withCapabilities(capabilities)
			.build();
		return new App(session);
	}

	async quit() {
		await this.#session.quit();
	}

	/** Ends the app's process as a power cut would, without a word to it. */
	async kill(dataDir) {
		const running = () => pidsOf(required('BRAID_APP'), dataDir);
		for (const pid of running()) process.kill(pid, 'SIGKILL');
		await this.until('the process to be gone', () => running().length === 0);
		await this.#session.quit().catch(() => {});
	}

	run(script, ...args) {
		return this.#session.executeScript(script, ...args);
	}

	runAsync(script, ...args) {
		return this.#session.executeAsyncScript(script, ...args);
	}

	/** Asks Rust, as the page does. Rejects with what Rust says. */
	async invoke(command, args = {}) {
		const { value, error } = await this.runAsync(
			`const done = arguments[arguments.length - 1];
			window.__TAURI_INTERNALS__.invoke(arguments[0], arguments[1]).then(
				(value) => done({ value }),
				(error) => done({ error: JSON.stringify(error) }),
			);`,
			command,
			args,
		);
		if (error !== undefined) throw new Error(`${command}: ${error}`);
		return value;
	}

	/** What is stored of the shown tab's conversation. */
	async stored() {
		const conversationId = await this.run(
			`return document.querySelector('[data-testid="tab"][aria-selected="true"]').dataset.conversationId;`,
		);
		return this.invoke('open_conversation', { conversationId });
	}

	/** Waits until the shown tab's settings are stored as they were typed, and closes them. */
	async settingsAre(expected) {
		await this.until('the settings to be stored', async () => {
			const { settings } = await this.stored();
			return Object.entries(expected).every(([name, value]) => settings[name] === value);
		});
		await this.closeSettings();
	}

	all(name) {
		return this.#session.findElements(byTestId(name));
	}

	async count(name) {
		return (await this.all(name)).length;
	}

	/** Waits until `probe` returns something true, and returns it. */
	async until(what, probe, limitMs = 30_000) {
		const end = Date.now() + limitMs;
		let last;
		for (;;) {
			try {
				const value = await probe();
				if (value) return value;
				last = undefined;
			} catch (thrown) {
				last = thrown;
			}
			if (Date.now() > end) {
				await this.picture('stuck').catch(() => {});
				throw new Error(`waited ${limitMs / 1000} s for: ${what}`, { cause: last });
			}
			await new Promise((resolve) => setTimeout(resolve, 60));
		}
	}

	one(name, limitMs) {
		return this.until(`[${name}] on screen`, async () => (await this.all(name))[0], limitMs);
	}

	/** Clicks what is on screen; again if it was drawn anew between finding and clicking it. */
	async click(name) {
		await this.until(`a click on [${name}]`, async () => {
			const [found] = await this.all(name);
			await found?.click();
			return found !== undefined;
		});
	}

	/** Waits for the window to be drawn and for the model to be loaded. */
	async ready(limitMs = 180_000) {
		await this.one('composer', 30_000);
		await this.until(
			'the model to be loaded',
			async () => {
				const failed = (await this.all('engine-failed'))[0];
				if (failed) throw new Error(`the engine failed: ${await failed.getText()}`);
				return (await this.count('engine-loading')) === 0;
			},
			limitMs,
		);
	}

	async showTab(index) {
		// A long strip scrolls, and WebKit's driver does not scroll it.
		await this.run(
			`document.querySelectorAll('[data-testid="tab"]')[arguments[0]].scrollIntoView({ inline: 'nearest' });`,
			index,
		);
		await (await this.all('tab'))[index].click();
		await this.until(`tab ${index + 1} to be shown`, () =>
			this.run(
				`const tab = document.querySelectorAll('[data-testid="tab"]')[arguments[0]];
				return tab?.getAttribute('aria-selected') === 'true'
					&& document.querySelector('[data-testid="composer"]') !== null;`,
				index,
			),
		);
	}

	/** Opens tabs until there are `count`, all blank. Expects a first start: one blank tab is there. */
	async openBlankTabs(count) {
		await this.one('empty-chat');
		for (let have = await this.count('tab'); have < count; have += 1) {
			await this.click('new-tab');
			await this.until('the new tab', async () => (await this.count('tab')) > have);
			await this.one('empty-chat');
		}
	}

	/** Opens `count` blank tabs after those that are there; returns the place of the first. */
	async openMoreTabs(count) {
		const first = await this.count('tab');
		for (let have = first; have < first + count; have += 1) {
			await this.click('new-tab');
			await this.until('the new tab', async () => (await this.count('tab')) > have);
			await this.one('empty-chat');
		}
		return first;
	}

	async type(text) {
		await (await this.one('composer')).sendKeys(text);
	}

	/** Puts a text into the composer in one piece; typed, a long one takes a minute. */
	async put(text) {
		await (await this.one('composer')).click();
		await this.run(`document.execCommand('insertText', false, arguments[0]);`, text);
		await this.until('the text to be in the composer', async () => (await this.draft()) === text);
	}

	/** What stands in the composer. */
	draft() {
		return this.run(`return document.querySelector('[data-testid="composer"]')?.value ?? null;`);
	}

	/** Types a question and sends it. */
	async ask(text) {
		await this.type(text);
		await this.pressEnter();
	}

	/** Waits until the shown tab's answer has some text, and returns it. */
	untilSomeText(limitMs = 60_000) {
		return this.until(
			'some text',
			async () => {
				const shown = await this.lastAnswer();
				return (shown?.text.length ?? 0) > 10 ? shown : null;
			},
			limitMs,
		);
	}

	/** Presses keys wherever the caret is. */
	async press(...keys) {
		await this.#session
			.actions()
			.sendKeys(...keys)
			.perform();
	}

	/** Presses a key together with Ctrl, wherever the caret is. */
	async pressWithControl(key) {
		await this.#session.actions().keyDown(Key.CONTROL).sendKeys(key).keyUp(Key.CONTROL).perform();
	}

	/** Phase of the shown tab. */
	phase() {
		return this.run(
			`return document.querySelector('[data-testid="tab"][aria-selected="true"]')?.dataset.phase ?? null;`,
		);
	}

	/** What an element says, or `null` if it is not there. */
	words(name) {
		return this.run(
			`return document.querySelector('[data-testid="' + arguments[0] + '"]')?.innerText ?? null;`,
			name,
		);
	}

	/** Attributes `data-…` of every element of a name, in order. */
	facts(name) {
		return this.run(
			`return [...document.querySelectorAll('[data-testid="' + arguments[0] + '"]')].map((found) => ({ ...found.dataset }));`,
			name,
		);
	}

	/** Notices float above what is to be clicked. */
	dismissNotices() {
		return this.run(
			`document.querySelectorAll('[data-testid="notice"] > :last-child').forEach((close) => close.click());`,
		);
	}

	async pressEnter() {
		await (await this.one('composer')).sendKeys(Key.ENTER);
	}

	async openOverlay() {
		if ((await this.count('performance-overlay')) === 0) await this.click('toggle-overlay');
		await this.one('performance-overlay');
	}

	/** Writes into a field of the shown tab's settings. */
	async setSetting(field, value) {
		if ((await this.count('tab-settings')) === 0) await this.click('open-tab-settings');
		const input = await this.one(`setting-${field}`);
		await input.sendKeys(Key.chord(Key.CONTROL, 'a'));
		// A call of its own: WebKit holds the modifier until the call ends, and Ctrl+1 is a shortcut.
		await input.sendKeys(value);
	}

	/** Chooses one of several options, by its value, in the shown tab's settings. */
	async chooseSetting(field, value) {
		if ((await this.count('tab-settings')) === 0) await this.click('open-tab-settings');
		const choice = await this.one(`setting-${field}`);
		await choice.findElement(By.css(`label:has(input[value="${value}"])`)).click();
	}

	/** Types a schema, or another structure, into the shown tab's settings and waits until it is stored. */
	async setStructure(kind, text) {
		await this.chooseSetting('structureKind', kind);
		await this.until('the caret in the editor', () =>
			this.run(`
				// The editor lives in a shadow root, where WebDriver finds nothing.
				const roots = [...document.querySelectorAll('.structure *')].flatMap(({ shadowRoot }) => shadowRoot ?? []);
				const field = roots[0]?.querySelector('[data-testid="setting-structureText"]');
				field?.scrollIntoView({ block: 'center' });
				field?.focus();
				return field !== undefined && roots[0].activeElement === field;
			`),
		);
		await this.press(text);
		await this.until('the structure to be stored', async () => {
			const { settings } = await this.stored();
			return JSON.stringify(settings.structuredOutput ?? '').includes(JSON.stringify(text).slice(1, -1));
		});
	}

	async closeSettings() {
		if ((await this.count('tab-settings')) > 0) await this.click('open-tab-settings');
	}

	/**
	 * Records what the overlay shows, every time it changes, until the window closes.
	 *
	 * Inside the page: an answer of eight tokens is over before WebDriver could ask a second time.
	 */
	async recordOverlay() {
		await this.run(`
			const read = () => {
				const overlay = document.querySelector('[data-testid="performance-overlay"]');
				if (!overlay) return;
				const number = (element, name) => {
					const value = element.dataset[name];
					return value === undefined || value === '' ? null : Number(value);
				};
				const lanes = [...overlay.querySelectorAll('[data-testid="lane"]')].map((lane) => ({
					conversationId: lane.dataset.conversationId,
					phase: lane.dataset.phase,
					path: lane.dataset.path ?? null,
					reasons: (lane.dataset.reasons ?? '').split(',').filter(Boolean),
					tokS: number(lane, 'tokS'),
					source: lane.dataset.source,
					words: lane.querySelector('.reason')?.textContent ?? '',
				}));
				window.braidSamples.push({
					batchRows: number(overlay, 'batchRows'),
					totalTokS: number(overlay, 'totalTokS'),
					evals: number(overlay, 'evalsPerStep'),
					waits: number(overlay, 'waitsPerStep'),
					hostReads: number(overlay, 'hostReadsPerStep'),
					largestBatch: number(overlay.querySelector('[data-testid="heartbeat"]') ?? overlay, 'largestBatch'),
					lanes,
				});
			};
			window.braidSamples = [];
			new MutationObserver(read).observe(document.body, { subtree: true, attributes: true, attributeFilter: ['data-decode-steps', 'data-batch-rows'] });
			read();
		`);
	}

	samples() {
		return this.run('return window.braidSamples;');
	}

	/** Phase and path of every tab, from the strip. */
	tabs() {
		return this.run(`
			return [...document.querySelectorAll('[data-testid="tab"]')].map((tab) => ({
				conversationId: tab.dataset.conversationId,
				title: tab.querySelector('.title')?.textContent ?? '',
				phase: tab.dataset.phase,
				path: tab.dataset.path ?? null,
			}));
		`);
	}

	async untilAllIdle(limitMs) {
		const running = ['queued', 'prefilling', 'decoding'];
		await this.until(
			'every answer to end',
			async () => (await this.tabs()).every(({ phase }) => !running.includes(phase)),
			limitMs,
		);
	}

	/** Waits for the shown tab's answer to end, and returns it. */
	untilAnswered(limitMs) {
		return this.until(
			'the answer to end',
			async () => {
				const shown = await this.lastAnswer();
				return shown && shown.state !== 'streaming' ? shown : null;
			},
			limitMs,
		);
	}

	/** Waits until the shown tab's last answer is this version and has ended, and returns it. */
	untilVersion(version, limitMs = 120_000) {
		return this.until(
			`version ${version}`,
			async () => {
				const shown = await this.lastAnswer();
				return shown?.version === version && shown.state !== 'streaming' ? shown : null;
			},
			limitMs,
		);
	}

	/** The last answer of the shown tab, with its receipt if it has ended. */
	lastAnswer() {
		return this.run(`
			const answers = document.querySelectorAll('[data-testid="message"][data-role="assistant"]');
			const answer = answers[answers.length - 1];
			if (!answer) return null;
			const receipt = answer.querySelector('[data-testid="receipt"]');
			const number = (name) => {
				const value = receipt?.dataset[name];
				return value === undefined || value === '' ? null : Number(value);
			};
			return {
				state: answer.dataset.state,
				text: (answer.querySelector('[data-testid="answer-text"]')?.innerText ?? '').trim(),
				problem: answer.querySelector('[data-testid="answer-failure"]')?.innerText ?? null,
				tokS: number('tokS'),
				ttftMs: number('ttftMs'),
				answerTokens: number('answerTokens'),
				fusedSteps: number('fusedSteps'),
				perRowSteps: number('perRowSteps'),
				meanBatchRows: number('meanBatchRows'),
				cachedTokens: number('cachedTokens'),
				seed: receipt?.dataset.seed ?? null,
				version: answer.querySelector('[data-testid="version"]')?.innerText ?? null,
			};
		`);
	}

	/** Saves a picture of the window below `BRAID_OUT_DIR`. */
	async picture(name) {
		const folder = required('BRAID_OUT_DIR');
		mkdirSync(folder, { recursive: true });
		const path = join(folder, `${name}.png`);
		// WebKit's driver copies the last frame that was painted, and the software renderer is behind by a few.
		await new Promise((resolve) => setTimeout(resolve, 350));
		writeFileSync(path, await this.#session.takeScreenshot(), 'base64');
		return path;
	}
}

/** The samples in which the most tabs were generating at once. */
export function fullest(samples) {
	const decoding = (sample) => sample.lanes.filter((lane) => lane.phase === 'decoding' && lane.path).length;
	const most = Math.max(0, ...samples.map(decoding));
	return samples.filter((sample) => most > 0 && decoding(sample) === most);
}
