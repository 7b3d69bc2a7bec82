import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { openApp, pictures, send, sendInFourTabs, useBrowser } from './app';
import { seriousFindings } from './axe';

useBrowser();

const titles = (page: Page) => page.getByTestId('tab').locator('.title').allInnerTexts();
/** Opens a part of the settings once the window listens to keys. */
async function openSettings(page: Page, section: string) {
	await page.getByTestId('composer').waitFor();
	await page.keyboard.press('Control+,');
	await page.getByTestId(`settings-${section}`).click();
}

const four = ['Capital of France', 'How rainbows form', 'Counting words in Rust', 'Tea or coffee?'];

test('tabs are moved by pointer and by key, and stay where they are over a restart', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('tab').nth(3).waitFor();
	const grabbed = await page.getByTestId('tab').nth(0).boundingBox();
	if (!grabbed) throw new Error('the tab is on screen');
	await page.mouse.move(grabbed.x + 40, grabbed.y + 10);
	await page.mouse.down();
	await page.mouse.move(grabbed.x + 60, grabbed.y + 10);
	await page.mouse.move(grabbed.x + 40 + grabbed.width * 2.2, grabbed.y + 14, { steps: 12 });
	await page.mouse.up();
	const dragged = [four[1], four[2], four[0], four[3]];
	await expect.poll(() => titles(page)).toEqual(dragged);
	await page.getByTestId('tab').nth(2).click();
	await page.keyboard.press('Control+Shift+PageDown');
	await page.keyboard.press('Control+Shift+PageDown');
	const moved = [four[1], four[2], four[3], four[0]];
	await expect.poll(() => titles(page), { message: 'at the end it stays' }).toEqual(moved);
	await page.waitForTimeout(400);
	await page.reload();
	await page.getByTestId('tab').nth(3).waitFor();
	expect(await titles(page)).toEqual(moved);
});

test('a tab is renamed in place, by double click and by F2, from the message field too', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('tab').nth(1).dblclick();
	await page.getByTestId('rename-input').fill('Rainbows');
	await page.keyboard.press('Enter');
	await expect.poll(async () => (await titles(page))[1]).toBe('Rainbows');
	await page.getByTestId('composer').click();
	await page.keyboard.press('F2');
	await page.keyboard.type('Light');
	await page.keyboard.press('Escape');
	await expect.poll(() => page.getByTestId('rename-input').count()).toBe(0);
	expect((await titles(page))[1]).toBe('Rainbows');
	await page.getByTestId('sidebar').getByText('Rainbows').waitFor();
});

test('an answer that ends out of sight is marked in tab and sidebar, told, and read once shown', async () => {
	const page = await openApp('fourTabs');
	await send(page, 'What is the capital of France?');
	await page.getByTestId('tab').nth(1).click();
	const tab = page.locator('[data-testid=tab][data-conversation-id="1"]');
	await expect.poll(() => tab.getAttribute('data-unread')).toBe('true');
	expect(
		await page.locator('[data-testid=conversation][data-conversation-id="1"]').getAttribute('data-unread'),
	).toBe('true');
	expect(await page.getByTestId('announcement').innerText()).toContain('Capital of France');
	expect((await tab.getAttribute('aria-label')) ?? (await tab.innerText())).toContain('new answer');
	expect(await seriousFindings(page)).toEqual([]);
	await page.waitForTimeout(400);
	await page.reload();
	await expect.poll(() => tab.getAttribute('data-unread'), { message: 'it is kept' }).toBe('true');
	await tab.click();
	await expect.poll(() => tab.getAttribute('data-unread')).toBe('false');
});

test('the menu of a tab works by key, exports, copies settings and closes the others', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('tab').nth(0).click({ button: 'right' });
	await page.getByTestId('tab-menu').waitFor();
	expect(await seriousFindings(page)).toEqual([]);
	await page.keyboard.press('e');
	await page.keyboard.press('Enter');
	await page.getByText('The conversation was written to /home/me/Documents/Capital of France.md.').waitFor();
	await page.getByTestId('tab').nth(0).click({ button: 'right' });
	await page.getByTestId('menu-duplicate').click();
	await expect.poll(() => page.getByTestId('tab').count()).toBe(5);
	await page.getByTestId('tab').nth(1).click({ button: 'right' });
	await page.getByTestId('menu-close-others').click();
	await expect.poll(() => titles(page)).toEqual([four[1]]);
});

test('where a reader was is found again after a restart', async () => {
	const page = await openApp('fourTabs', { viewport: { width: 1000, height: 360 } });
	await page.getByTestId('tab').nth(1).click();
	await send(page, 'Explain how a rainbow forms.');
	await page.getByTestId('receipt').waitFor();
	const region = page.getByRole('region', { name: 'Messages' });
	await region.hover();
	await page.mouse.wheel(0, -90);
	await page.waitForTimeout(1100);
	const before = await region.evaluate((list) => list.scrollTop);
	expect(before).toBeGreaterThan(0);
	await page.reload();
	await page.getByTestId('receipt').waitFor();
	await expect
		.poll(() => region.evaluate((list, top) => Math.abs(list.scrollTop - top), before))
		.toBeLessThan(4);
});

test('files come in with a report that names what did not, from the settings and by dropping', async () => {
	const page = await openApp('fourTabs');
	await openSettings(page, 'data');
	await page.getByTestId('import-files').click();
	await page.getByTestId('import-report').waitFor();
	expect(await page.getByTestId('imported').count()).toBe(2);
	expect(await page.getByTestId('skipped').allInnerTexts()).toEqual([
		expect.stringContaining('It has no message'),
		expect.stringContaining('No format that Braid knows'),
	]);
	expect(await seriousFindings(page)).toEqual([]);
	await page.getByTestId('import-report-close').click();
	const drop = (phase: string) =>
		page.evaluate((at) => {
			const detail = { phase: at, paths: ['/x/one.conversation.json'], x: 100, y: 300 };
			window.dispatchEvent(new CustomEvent('braid-scripted-drop', { detail }));
		}, phase);
	await drop('over');
	await page.getByTestId('import-drop').waitFor();
	await drop('dropped');
	await page.getByTestId('imported').getByText('Packing list').click();
	await expect.poll(() => titles(page)).toContain('Packing list');
	const failing = await openApp('transferFails');
	await openSettings(failing, 'data');
	await failing.getByTestId('export-json').click();
	await failing.getByTestId('notice').getByText('could not be written').waitFor();
});

test('presets are saved, say how a tab differs, and open tabs', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('open-tab-settings').click();
	await page.getByTestId('setting-temperature').fill('0.2');
	await page.waitForTimeout(400);
	await page.getByTestId('preset-new').click();
	await page.getByTestId('preset-name').fill('Calm');
	await page.keyboard.press('Enter');
	const bar = page.getByTestId('preset-bar');
	await expect.poll(() => bar.getAttribute('data-preset')).toBe('Calm');
	await page.getByTestId('setting-topK').fill('40');
	await expect.poll(() => bar.getAttribute('data-changed')).toBe('true');
	await page.getByTestId('preset-back').click();
	await expect.poll(() => page.getByTestId('setting-topK').inputValue()).toBe('0');
	await page.getByTestId('new-tab').click({ button: 'right' });
	await page.getByTestId('menu-preset').click();
	await expect.poll(() => page.getByTestId('tab').count()).toBe(5);
	await expect.poll(() => bar.getAttribute('data-preset')).toBe('Calm');
	expect(await page.getByTestId('setting-temperature').inputValue()).toBe('0.2');
	await openSettings(page, 'newChats');
	await page.getByTestId('preset-rename').click();
	await page.getByTestId('preset-rename-input').fill('Calmer');
	await page.keyboard.press('Enter');
	await page.locator('[data-testid=preset][data-name=Calmer]').waitFor();
	expect(await seriousFindings(page)).toEqual([]);
});

for (const colorScheme of ['light', 'dark'] as const) {
	test(`the editor marks problems where they are and goes to them, ${colorScheme}`, async () => {
		const page = await openApp('fourTabs', { colorScheme });
		await page.getByTestId('open-tab-settings').click();
		await page.getByTestId('setting-structureKind').getByText('JSON').click();
		const editor = page.getByTestId('setting-structureText');
		await editor.fill('{\n  "type": "object",\n  "properties": { "a": { "not": {} } }\n}');
		const problem = page.getByTestId('structure-problem');
		await problem.waitFor();
		expect(await problem.getAttribute('data-severity')).toBe('ignored');
		await page.getByTestId('structure-go').click();
		await page.keyboard.type('X');
		expect(await editor.innerText()).toContain('{ X"not": {} }');
		await page.keyboard.press('Backspace');
		await page.keyboard.type('?');
		expect(await page.getByTestId('shortcut-sheet').count(), 'a sign is text here').toBe(0);
		await page.keyboard.press('Backspace');
		expect(await seriousFindings(page)).toEqual([]);
		await page.screenshot({ path: `${pictures}/editor-${colorScheme}.png` });
		await page.getByTestId('schema-example').click();
		const make = page.getByTestId('example-make');
		await expect
			.poll(async () => {
				await page.getByTestId('example-text').fill('{ "city": "Paris" }');
				return make.isEnabled();
			})
			.toBe(true);
		await make.click();
		await page.getByText('Answers can be held to it.').waitFor();
		await page.getByTestId('match-batch-now').click();
		await expect.poll(() => editor.count(), { message: 'the tab is in step again' }).toBe(0);
		await page.getByTestId('notice').getByText('Undo').click();
		await expect.poll(() => editor.innerText()).toContain('"city"');
	});
}

test('a tab is given to a server, says so, and is in no batch', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('open-tab-settings').click();
	await page.getByTestId('answerer-setup').click();
	await page.getByTestId('server-add').click();
	await page.getByTestId('server-name').fill('Lab');
	await page.getByTestId('server-address').fill('lab');
	await page.getByTestId('server-save').click();
	await page.getByTestId('server-refused').waitFor();
	await page.getByTestId('server-address').fill('http://127.0.0.1:8000');
	await page.getByTestId('server-save').click();
	await page.locator('[data-testid=server-answer][data-kind=models]').waitFor();
	expect(await seriousFindings(page)).toEqual([]);
	await page.getByTestId('settings-back').click();
	await page.getByTestId('answerer-choice').selectOption({ label: 'qwen3-30b-a3b' });
	await page.getByTestId('remote-note').getByText('qwen3-30b-a3b on Lab').waitFor();
	await page.getByTestId('setting-logprobs').fill('3');
	await page.waitForTimeout(500);
	expect(await page.getByTestId('forecast-note').count()).toBe(0);
});

test('the local server has address, key and example once it is on, and says why it cannot listen', async () => {
	const page = await openApp('fourTabs');
	await openSettings(page, 'localServer');
	await page.getByTestId('local-switch').click();
	await page.getByTestId('local-key').waitFor();
	expect(await page.getByTestId('local-key').innerText()).toMatch(/^•+$/);
	const { key, example } = await page.evaluate(async () => {
		const text = (id: string) => document.querySelector(`[data-testid="${id}"]`)?.textContent ?? '';
		document.querySelector<HTMLElement>('[data-testid="local-show-key"]')?.click();
		await new Promise((resolve) => setTimeout(resolve, 50));
		return { key: text('local-key'), example: text('local-example') };
	});
	expect(example).toContain(`Bearer ${key}`);
	expect(await seriousFindings(page)).toEqual([]);
	await page.getByTestId('local-port').fill('8080');
	await page.getByTestId('local-move').click();
	await page.getByTestId('local-failure').getByText('cannot listen').waitFor();
	expect(await page.getByTestId('local-address').count()).toBe(0);
});

test('the benchmark waits for answers, runs, can be cancelled and gives a table', async () => {
	const page = await openApp('fourTabs');
	await openSettings(page, 'performance');
	await page.getByTestId('benchmark-start').click();
	await page.getByTestId('benchmark-cancel').click();
	await page.getByTestId('benchmark-start').click();
	await page.getByTestId('benchmark-table').waitFor();
	expect(await page.getByTestId('benchmark-table').locator('tbody tr').count()).toBe(7);
	await page.getByTestId('benchmark-save').click();
	await page.getByText('The report was written to /home/me/Documents/braid-benchmark.md.').waitFor();
	expect(await seriousFindings(page)).toEqual([]);
	await page.getByTestId('settings-help').click();
	await page.getByTestId('diagnostics-make').click();
	await page.getByTestId('diagnostics').getByText('Braid diagnostics').waitFor();
	expect(await seriousFindings(page)).toEqual([]);
});

test('the overlay shows headroom, what each mode costs, and who else is in the batch', async () => {
	const page = await openApp('visitors');
	await page.getByTestId('toggle-overlay').click();
	await sendInFourTabs(page);
	await page.getByTestId('lane').getByText('Local server').waitFor();
	await page.getByTestId('lane').getByText('Benchmark').waitFor();
	await expect.poll(() => page.getByTestId('mode-effects').getAttribute('data-rows')).toBe('4');
	await page.getByTestId('gate-mode').getByText('Folded').click();
	const folded = page.locator('[data-testid=mode-effect][data-mode=folded]');
	await expect.poll(() => folded.innerText()).toContain('ms');
	expect(await page.locator('[data-testid=mode-effect][data-mode=strict]').innerText()).toContain(
		'not measured yet',
	);
	expect(await page.getByTestId('room').innerText()).toMatch(/Room for about \d+ more chats/);
	expect(await seriousFindings(page)).toEqual([]);
	await page.screenshot({ path: `${pictures}/overlay-visitors.png` });
});

test('the welcome lets one type at once, goes by itself, and does not come back', async () => {
	const page = await openApp('firstStart');
	await page.getByTestId('welcome').waitFor();
	await page.keyboard.type('Hello');
	expect(await page.getByTestId('composer').inputValue()).toBe('Hello');
	expect(await seriousFindings(page)).toEqual([]);
	await page.screenshot({ path: `${pictures}/welcome.png` });
	await page.setViewportSize({ width: 640, height: 450 });
	const field = await page.getByTestId('composer').boundingBox();
	expect((field?.y ?? 999) + (field?.height ?? 0), 'it is never in the way').toBeLessThan(450);
	await page.keyboard.press('Enter');
	await page.getByTestId('receipt').waitFor();
	await page.keyboard.press('Control+t');
	await page.getByTestId('empty-chat').waitFor();
	expect(await page.getByTestId('welcome').count()).toBe(0);
	await page.waitForTimeout(400);
	await page.reload();
	await page.getByTestId('empty-chat').waitFor();
	expect(await page.getByTestId('welcome').count()).toBe(0);
});
