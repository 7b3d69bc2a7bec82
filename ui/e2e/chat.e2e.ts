import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { expectProblems, openApp, send, sendInFourTabs, useBrowser } from './app';

useBrowser();

const lastAnswer = (page: Page) => page.locator('[data-testid=message][data-role=assistant]').last();
const answerText = async (page: Page) =>
	(await lastAnswer(page).getByTestId('answer-text').textContent()) ?? '';
const attribute = (page: Page, testid: string, name: string) =>
	page.getByTestId(testid).evaluateAll((all, attr) => all.map((element) => element.getAttribute(attr)), name);

test('four tabs stream at once, as rows of one fused batch', async () => {
	const page = await openApp('fourTabs');
	await sendInFourTabs(page);
	await page.getByTestId('toggle-overlay').click();
	await page.locator('[data-testid=performance-overlay][data-batch-rows="4"]').waitFor();
	const paths = () => attribute(page, 'lane', 'data-path');
	await expect.poll(paths).toEqual(['fused', 'fused', 'fused', 'fused']);
	expect(await attribute(page, 'performance-overlay', 'data-host-reads-per-step')).toEqual(['1']);
	expect(await attribute(page, 'tab', 'data-phase')).toEqual([
		'decoding',
		'decoding',
		'decoding',
		'decoding',
	]);
	const texts: string[] = [];
	for (const i of [0, 1, 2, 3]) {
		await page.getByTestId('tab').nth(i).click();
		texts.push(await answerText(page));
	}
	expect(texts.every((text) => text.length > 0)).toBe(true);
	expect(new Set(texts).size, 'no tab shows the words of another').toBe(4);
	await page.getByTestId('tab').nth(0).click();
	const before = texts[0] ?? '';
	await expect.poll(async () => (await answerText(page)).length).toBeGreaterThan(before.length);
	await page.getByTestId('receipt').waitFor();
	expect(await answerText(page)).toContain('early autumn are the calmest seasons');
});

test('Stop ends the answer and keeps its text; Escape does the same', async () => {
	const page = await openApp('fourTabs');
	for (const stop of [() => page.getByTestId('stop').click(), () => page.keyboard.press('Escape')]) {
		await send(page, `Question ${Math.random()}`);
		await expect.poll(() => answerText(page)).not.toBe('');
		const before = await answerText(page);
		await stop();
		await expect.poll(() => lastAnswer(page).getAttribute('data-state')).toBe('stopped');
		expect((await answerText(page)).startsWith(before.slice(0, -2))).toBe(true);
		expect(await lastAnswer(page).getByTestId('answer-state').textContent()).toContain('Stopped by you');
		expect(await page.getByTestId('composer').isEditable()).toBe(true);
	}
});

test('a restart brings back tabs, drafts and the part of an answer that was written', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('tab').nth(2).click();
	await page.getByTestId('composer').fill('Half a thou');
	await page.getByTestId('tab').nth(1).click();
	await send(page, 'Explain rainbows.');
	await page.getByTestId('new-tab').click();
	await expect.poll(() => page.getByTestId('tab').count()).toBe(5);
	await page.getByTestId('composer').fill('A new draft');
	await page.waitForTimeout(700);
	await page.reload();
	await expect.poll(() => page.getByTestId('tab').count()).toBe(5);
	expect(await page.getByTestId('tab').nth(4).getAttribute('aria-selected')).toBe('true');
	await expect.poll(() => page.getByTestId('composer').inputValue()).toBe('A new draft');
	await page.getByTestId('tab').nth(2).click();
	await expect.poll(() => page.getByTestId('composer').inputValue()).toBe('Half a thou');
	await page.getByTestId('tab').nth(1).click();
	await expect.poll(() => lastAnswer(page).getAttribute('data-state')).toBe('interrupted');
	expect(await page.getByTestId('notice').first().textContent()).toContain('interrupted');
});

test('an interrupted answer keeps its text and says what happened', async () => {
	const page = await openApp('interrupted');
	await lastAnswer(page).waitFor();
	expect(await answerText(page)).toContain('Paris is the capital');
	expect(await lastAnswer(page).getByTestId('answer-state').textContent()).toContain('Interrupted');
});

test('tabs open, move and close by keyboard', async () => {
	const page = await openApp('fourTabs');
	const shown = () => page.locator('[data-testid=tab][aria-selected=true] .title').textContent();
	await expect.poll(shown).toBe('Capital of France');
	await page.keyboard.press('Control+3');
	await expect.poll(shown).toBe('Counting words in Rust');
	await page.keyboard.press('Control+Shift+P');
	await page.getByTestId('performance-overlay').waitFor();
	await page.keyboard.press('Control+Shift+P');
	await expect.poll(() => page.getByTestId('performance-overlay').count()).toBe(0);
	// Chromium keeps Ctrl+T and Ctrl+W for itself; the app's window does not.
	const press = (key: string, code: string) =>
		page.evaluate(
			([k, c]) =>
				window.dispatchEvent(
					new KeyboardEvent('keydown', { key: k ?? '', code: c ?? '', ctrlKey: true, cancelable: true }),
				),
			[key, code],
		);
	await press('w', 'KeyW');
	await expect.poll(() => page.getByTestId('tab').count()).toBe(3);
	await press('t', 'KeyT');
	await expect.poll(shown).toBe('New conversation');
	await page.getByTestId('tab').nth(3).focus();
	await page.keyboard.press('ArrowLeft');
	await expect.poll(shown).toBe('Tea or coffee?');
	await page.getByTestId('tab').nth(0).click({ button: 'middle' });
	await expect.poll(() => page.getByTestId('tab').count()).toBe(3);
});

test('an untouched tab leaves no trace when it is closed', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('new-tab').click();
	await expect.poll(() => page.getByTestId('conversation').count()).toBe(5);
	await page.getByTestId('close-tab').nth(4).click();
	await expect.poll(() => page.getByTestId('conversation').count()).toBe(4);
});

test('a conversation is renamed in place and deleted with a way back', async () => {
	const page = await openApp('fourTabs');
	const first = page.locator('[data-testid=conversation][data-conversation-id="1"]');
	await first.hover();
	await first.getByTestId('rename').click();
	await page.getByTestId('rename-input').fill('Paris');
	await page.keyboard.press('Enter');
	await expect.poll(() => first.locator('.title').textContent()).toBe('Paris');
	await expect.poll(() => page.getByTestId('tab').first().textContent()).toContain('Paris');
	await first.hover();
	await first.getByTestId('delete').click();
	await expect.poll(() => first.count()).toBe(0);
	expect(await page.getByTestId('tab').count()).toBe(3);
	await page.getByTestId('notice').getByText('Undo').click();
	await expect.poll(() => first.count()).toBe(1);
	await expect.poll(() => page.getByTestId('tab').count()).toBe(4);
});

test('logprobs are announced before sending; Strict shows who slows whom', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('open-tab-settings').click();
	await page.getByTestId('setting-logprobs').fill('5');
	await expect.poll(() => page.getByTestId('forecast-note').textContent()).toContain('per row: logprobs');
	await page.waitForTimeout(500);
	await page.getByTestId('open-tab-settings').click();
	await sendInFourTabs(page);
	await page.getByTestId('toggle-overlay').click();
	await expect.poll(() => attribute(page, 'tab', 'data-path')).toEqual(['perRow', 'fused', 'fused', 'fused']);
	await page.getByTestId('gate-mode').getByText('Strict').click();
	await expect
		.poll(() => attribute(page, 'tab', 'data-path'))
		.toEqual(['perRow', 'slowed', 'slowed', 'slowed']);
	await page.getByTestId('tab').nth(1).hover();
	await expect.poll(() => page.getByTestId('tab-tip').textContent()).toContain('Capital of France');
});

test('a setting out of range is named and not saved', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('open-tab-settings').click();
	await page.getByTestId('setting-topP').fill('1.5');
	await page.getByText('Top-p must be a number, above 0 and at most 1; it is “1.5”.').waitFor();
	await page.waitForTimeout(500);
	await page.reload();
	await page.getByTestId('open-tab-settings').click();
	expect(await page.getByTestId('setting-topP').inputValue()).toBe('0.9');
});

test('requests beyond the slots wait and say how many are ahead', async () => {
	const page = await openApp('oneSlot');
	await sendInFourTabs(page);
	await expect.poll(() => attribute(page, 'tab', 'data-phase')).toContain('queued');
	await expect.poll(() => lastAnswer(page).textContent()).toMatch(/Queued, \d ahead|Queued, next/);
	await page.getByTestId('stop').click();
	await expect.poll(() => lastAnswer(page).getAttribute('data-state')).toBe('stopped');
});

test('the reader’s place is never moved, and one button goes to the end', async () => {
	const page = await openApp('fourTabs', { viewport: { width: 900, height: 420 } });
	await send(page, 'Explain it.');
	const viewport = page.locator('.viewport');
	const fromEnd = () =>
		viewport.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight);
	await expect.poll(() => viewport.evaluate((element) => element.scrollTop)).toBeGreaterThan(60);
	expect(await fromEnd(), 'follows the text').toBeLessThan(4);
	await viewport.hover();
	await page.mouse.wheel(0, -60);
	await page.getByTestId('jump-to-latest').waitFor();
	const place = await viewport.evaluate((element) => element.scrollTop);
	await page.waitForTimeout(600);
	expect(await viewport.evaluate((element) => element.scrollTop)).toBe(place);
	await page.getByTestId('jump-to-latest').click();
	await expect.poll(fromEnd).toBeLessThan(4);
	await page.waitForTimeout(300);
	expect(await fromEnd(), 'follows again').toBeLessThan(4);
});

test('a link shows its address and goes nowhere', async () => {
	const page = await openApp('fourTabs');
	const start = page.url();
	await page.getByTestId('tab').nth(3).click();
	await send(page, 'Where can I read more?');
	await page.getByTestId('receipt').waitFor();
	const link = page.locator('.md-link');
	if ((await link.count()) === 0) throw new Error('the sample answer has a link');
	await link.first().click();
	await page.getByTestId('link-card').waitFor();
	expect(page.url()).toBe(start);
});

test('a message that cannot be saved stays in the composer', async () => {
	const page = await openApp('diskFull');
	await page.getByTestId('composer').fill('Please keep me');
	await page.getByTestId('composer').press('Enter');
	await page.getByTestId('send-failure').waitFor();
	expect(await page.getByTestId('send-failure').textContent()).toContain('The disk is full');
	expect(await page.getByTestId('composer').inputValue()).toBe('Please keep me');
});

test('an answer that fails keeps its text, and the other tabs go on', async () => {
	const page = await openApp('answerFails');
	await send(page, 'Fail, please.');
	await page.getByTestId('answer-failure').waitFor();
	expect((await answerText(page)).length).toBeGreaterThan(0);
	expect(await page.getByTestId('answer-failure').textContent()).toContain('cannot be sampled');
	expect(await attribute(page, 'tab', 'data-phase')).toEqual(['failed']);
});

test('a failed engine says so and comes back', async () => {
	const page = await openApp('engineFailed');
	await page.getByTestId('engine-failed').getByText('Restart engine').click();
	await page.getByTestId('engine-loading').waitFor();
	await expect.poll(() => page.getByTestId('engine-loading').count()).toBe(0);
	await send(page, 'Are you back?');
});

test('a loading engine keeps the message until it can be sent', async () => {
	const page = await openApp('engineLoading');
	await page.getByTestId('engine-loading').waitFor();
	await page.getByTestId('composer').fill('Early bird');
	await page.getByTestId('composer').press('Enter');
	expect(await page.getByTestId('composer').inputValue()).toBe('Early bird');
	expect(await page.getByTestId('send').isDisabled()).toBe(true);
});

test('a history that cannot be opened is never shown as empty', async () => {
	const page = await openApp('startFails');
	await page.getByTestId('start-failure').waitFor();
	expect(await page.getByTestId('start-failure').textContent()).toContain('written by a newer Braid');
	expect(await page.getByTestId('composer').count()).toBe(0);
});

test('a slow call says what it is waiting for', async () => {
	const page = await openApp('slowCalls');
	await page.getByTestId('slow-call').waitFor();
	expect(await page.getByTestId('slow-call').textContent()).toContain('Opening your history');
});

test('a defect of the window is said in words, reported, and leaves a way out', async () => {
	const page = await openApp('breaksDrawing');
	await page.getByTestId('window-failure').waitFor();
	expect(await page.getByTestId('window-failure').textContent()).toContain('Your messages are saved');
	const reported = await page.evaluate(() => sessionStorage.getItem('braid-scripted-ui-failure'));
	expect(reported).toContain('TypeError');
	const stray = await openApp('fresh');
	await stray.getByTestId('composer').waitFor();
	await stray.evaluate(() => void Promise.reject(new Error('a stray defect')));
	await stray.getByTestId('ui-failure').getByText('a stray defect').waitFor();
	expectProblems(/a stray defect/);
});
