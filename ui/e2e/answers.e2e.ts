import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { openApp, pictures, send, useBrowser } from './app';
import { seriousFindings } from './axe';

useBrowser();

const messages = (page: Page, role: 'user' | 'assistant') =>
	page.locator(`[data-testid=message][data-role=${role}]`);
const lastAnswer = (page: Page) => messages(page, 'assistant').last();
const answerText = async (page: Page) =>
	(await lastAnswer(page).getByTestId('answer-text').textContent()) ?? '';
const isEnded = (page: Page) => page.getByTestId('receipt').last().waitFor();

async function withSetting(page: Page, field: string, value: string) {
	await page.getByTestId('open-tab-settings').click();
	await page.getByTestId(`setting-${field}`).fill(value);
	await page.waitForTimeout(500);
	await page.getByTestId('open-tab-settings').click();
}

/** Opens the choice of answers with the keyboard, question and all. */
async function openFanOut(page: Page, question: string) {
	await page.getByTestId('composer').fill(question);
	await page.keyboard.press('Control+Shift+Enter');
	await page.getByTestId('fan-out').waitFor();
}

const compared = (page: Page) => page.getByTestId('compared');
const states = (page: Page) =>
	compared(page).evaluateAll((all) => all.map((column) => column.getAttribute('data-state')));

async function drop(page: Page, phase: 'over' | 'dropped', paths: string[]) {
	await page.evaluate(
		(detail) => void window.dispatchEvent(new CustomEvent('braid-scripted-drop', { detail })),
		{ phase, paths, x: 700, y: 400 },
	);
}

test('a question is edited in place: Escape leaves it, Enter asks anew, and both versions stay', async () => {
	const page = await openApp('fourTabs');
	await send(page, 'What about Paris?');
	await isEnded(page);
	await messages(page, 'user').hover();
	await page.getByTestId('edit-question').click();
	await page.getByTestId('edit-text').fill('What about Lyon?');
	await page.keyboard.press('Escape');
	expect(await messages(page, 'user').textContent()).toContain('What about Paris?');
	await page.getByTestId('edit-question').click();
	await page.getByTestId('edit-text').fill('What about Lyon?');
	await page.getByTestId('edit-text').press('Shift+Enter');
	await page.getByTestId('edit-text').pressSequentially('And Nice?');
	expect(await seriousFindings(page), 'while a question is edited').toEqual([]);
	await page.getByTestId('edit-text').press('Enter');
	await expect.poll(() => messages(page, 'user').getByTestId('version').textContent()).toBe('2 / 2');
	expect(await messages(page, 'user').textContent()).toContain('What about Lyon?\nAnd Nice?');
	await isEnded(page);
	await messages(page, 'user').getByTestId('previous-version').click();
	await expect.poll(() => messages(page, 'user').textContent()).toContain('What about Paris?');
	await page.reload();
	await expect.poll(() => messages(page, 'user').getByTestId('version').textContent()).toBe('1 / 2');
});

test('an answer that ended early goes on where it stopped', async () => {
	const page = await openApp('fourTabs');
	await send(page, 'Tell me about it.');
	await expect.poll(async () => (await answerText(page)).length).toBeGreaterThan(20);
	await page.keyboard.press('Escape');
	await page.getByTestId('continue').waitFor();
	const before = await answerText(page);
	await page.getByTestId('continue').click();
	await expect.poll(() => lastAnswer(page).getAttribute('data-state')).toBe('complete');
	const after = await answerText(page);
	expect(after.startsWith(before.trimEnd())).toBe(true);
	expect(after).toContain('calmest seasons');
	expect(await page.getByTestId('continue').count(), 'nothing is left to say').toBe(0);
});

test('an answer is written by hand, beside the model’s own', async () => {
	const page = await openApp('fourTabs');
	await send(page, 'And?');
	await isEnded(page);
	await page.getByTestId('edit-answer').click();
	await page.getByTestId('edit-text').fill('My *own* words.');
	await page.getByTestId('edit-text').press('Control+Enter');
	await expect.poll(() => lastAnswer(page).getByTestId('version').textContent()).toBe('2 / 2');
	expect((await answerText(page)).trim()).toBe('My own words.');
	await page.getByTestId('compare-versions').click();
	await expect.poll(() => compared(page).count()).toBe(2);
	await page.getByTestId('keep').first().click();
	await expect.poll(() => lastAnswer(page).getByTestId('version').textContent()).toBe('1 / 2');
});

test('tokens are walked by keyboard, and an alternative starts a branch', async () => {
	const page = await openApp('fourTabs');
	await withSetting(page, 'logprobs', '3');
	await send(page, 'Which tokens?');
	await isEnded(page);
	const before = await answerText(page);
	await page.getByTestId('show-tokens').click();
	await page.getByTestId('token').first().focus();
	await page.keyboard.press('ArrowRight');
	await page.keyboard.press('End');
	await page.keyboard.press('Home');
	for (let i = 0; i < 3; i += 1) await page.keyboard.press('ArrowRight');
	await expect.poll(() => page.getByTestId('branch').count()).toBe(2);
	const rare = page.locator('[data-testid=token][data-surprise=rare]').first();
	const sure = page.locator('[data-testid=token][data-surprise=sure]').first();
	const underline = (token: typeof rare) =>
		token.evaluate((element) => getComputedStyle(element).borderBottomWidth);
	expect([await underline(rare), await underline(sure)], 'not by colour alone').toEqual(['4px', '0px']);
	await page.screenshot({ path: `${pictures}/answers-tokens.png` });
	expect(await seriousFindings(page), 'with tokens').toEqual([]);
	await page.getByTestId('branch').first().click();
	await expect.poll(() => lastAnswer(page).getByTestId('version').textContent()).toBe('2 / 2');
	const branched = await answerText(page);
	expect(branched).toContain('other1');
	expect(branched.slice(0, 8)).toBe(before.slice(0, 8));
});

test('one question gets three answers side by side, from one reading; one is kept', async () => {
	const page = await openApp('fourTabs');
	await openFanOut(page, 'Which season?');
	await expect.poll(() => page.getByTestId('fan-out-note').textContent()).toContain('read once');
	expect(await seriousFindings(page), 'while answers are chosen').toEqual([]);
	await page.getByTestId('fan-out-go').click();
	await expect.poll(() => compared(page).count()).toBe(3);
	await expect.poll(() => states(page)).toEqual(['streaming', 'streaming', 'streaming']);
	await expect.poll(() => page.getByTestId('compared-phase').first().textContent()).toContain('tok/s');
	expect(await seriousFindings(page), 'while three answer').toEqual([]);
	await page.getByTestId('stop-one').nth(2).click();
	await expect.poll(() => states(page)).toEqual(['streaming', 'streaming', 'stopped']);
	await page.waitForTimeout(200);
	await page.reload();
	await expect.poll(() => compared(page).count()).toBe(0);
});

test('answers of a fan-out run to their end, are compared by keyboard, and all but the kept one stay as versions', async () => {
	const page = await openApp('fourTabs');
	await openFanOut(page, 'Which season?');
	await page.getByTestId('fan-out-go').click();
	await expect.poll(() => states(page), { timeout: 20_000 }).toEqual(['complete', 'complete', 'complete']);
	const cached = await compared(page).evaluateAll((all) =>
		all.map((column) => column.dataset['cachedTokens']),
	);
	expect(cached.map((tokens) => Number(tokens) > 0)).toEqual([false, true, true]);
	const words = await page.getByTestId('variant-words').allTextContents();
	expect(new Set(words).size, 'each says what it is').toBe(3);
	await compared(page).first().getByRole('region').first().focus();
	await page.keyboard.press('ArrowRight');
	await expect
		.poll(() =>
			compared(page)
				.nth(1)
				.evaluate((column) => column.contains(document.activeElement)),
		)
		.toBe(true);
	const second = (await compared(page).nth(1).getByTestId('answer-text').textContent()) ?? '';
	await page.getByTestId('keep').nth(1).click();
	await expect.poll(() => lastAnswer(page).getByTestId('version').textContent()).toBe('2 / 3');
	expect(await answerText(page)).toBe(second);
	await send(page, 'And then?');
	await expect.poll(() => messages(page, 'assistant').count()).toBe(2);
});

test('temperatures that cannot be are named; several tabs are asked at once', async () => {
	const page = await openApp('fourTabs');
	await openFanOut(page, 'Everyone?');
	await page.getByTestId('fan-out-kind').getByText('Temperature').click();
	await page.getByTestId('variant-line').first().fill('9');
	await expect.poll(() => page.getByTestId('fan-out-go').isDisabled()).toBe(true);
	await page.getByTestId('variant-line').first().fill('0');
	await page.getByTestId('add-variant').click();
	await expect.poll(() => page.getByTestId('fan-out-go').textContent()).toContain('4');
	await page.getByTestId('fan-out-kind').getByText('Open tabs').click();
	for (const i of [1, 3]) await page.getByTestId('variant-choice').nth(i).check();
	await page.getByTestId('fan-out-go').click();
	await page.getByTestId('beside').waitFor();
	await expect.poll(() => compared(page).count(), { message: 'side by side' }).toBe(3);
	expect(await seriousFindings(page), 'with tabs side by side').toEqual([]);
	await expect.poll(() => states(page)).toEqual(['complete', 'complete', 'complete']);
	await page.screenshot({ path: `${pictures}/answers-beside.png` });
	await page.getByTestId('show-tab').nth(1).click();
	await expect.poll(() => page.getByTestId('beside').count()).toBe(0);
	await expect.poll(() => messages(page, 'user').textContent()).toContain('Everyone?');
});

test('files are attached, counted against the room, refused with a reason, and read again later', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('attach').click();
	await expect.poll(() => page.getByTestId('attachment').count()).toBe(2);
	await expect.poll(() => page.getByTestId('attachment-room').textContent()).toContain('free');
	await drop(page, 'over', []);
	await page.getByTestId('drop-target').waitFor();
	await drop(page, 'dropped', ['/home/me/thesis.pdf', '/home/me/photo.jpg']);
	await expect.poll(() => page.getByTestId('attachment').count()).toBe(3);
	expect(await page.getByTestId('attachment-refused').textContent()).toContain('photo.jpg');
	await expect.poll(() => page.getByTestId('attachment-room').textContent()).toContain('Remove a file');
	await page.getByTestId('composer').fill('Sum it up.');
	await expect.poll(() => page.getByTestId('send').isDisabled()).toBe(true);
	expect(await seriousFindings(page), 'with too much attached').toEqual([]);
	await page.getByTestId('remove-attachment').nth(2).click();
	await expect.poll(() => page.getByTestId('send').isDisabled()).toBe(false);
	await page.getByTestId('composer').press('Enter');
	await expect.poll(() => messages(page, 'user').getByTestId('attachment').count()).toBe(2);
	expect(await page.getByTestId('draft-attachments').count()).toBe(0);
	await messages(page, 'user').getByTestId('open-attachment').first().click();
	await expect.poll(() => page.getByTestId('attachment-text').textContent()).toContain('Tuesday');
	expect(await seriousFindings(page), 'in the viewer').toEqual([]);
	await page.keyboard.press('Escape');
	await expect.poll(() => page.getByTestId('attachment-viewer').count()).toBe(0);
});

test('a long text that is pasted can become a file', async () => {
	const page = await openApp('fourTabs');
	const long = 'A line of a long text.\n'.repeat(200);
	await page.getByTestId('composer').focus();
	await page.evaluate((text) => {
		const area = document.querySelector<HTMLTextAreaElement>('[data-testid=composer]');
		const clipboardData = new DataTransfer();
		clipboardData.setData('text/plain', text);
		area?.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
		// A script's paste event does not paste.
		document.execCommand('insertText', false, text);
	}, long);
	await page.getByTestId('attach-pasted').click();
	await expect.poll(() => page.getByTestId('attachment').count()).toBe(1);
	expect(await page.getByTestId('composer').inputValue()).toBe('');
});

test('formulas are drawn under the window’s policy; prices are not', async () => {
	const page = await openApp('fourTabs');
	await send(page, 'Give me a formula.');
	await isEnded(page);
	await expect.poll(() => page.locator('.md-math[data-drawn=yes]').count()).toBe(7);
	const fraction = page.locator('.md-formula .katex-html').first();
	expect((await fraction.boundingBox())?.height, 'styles arrived').toBeGreaterThan(30);
	expect(await answerText(page)).toContain('costs $5 to $10, and');
	expect(await seriousFindings(page), 'with formulas').toEqual([]);
});

test('wrapped code stays wrapped after a restart', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('tab').nth(2).click();
	await send(page, 'Code?');
	await isEnded(page);
	await page.locator('[data-wrap-code]').click();
	const wraps = () => page.locator('pre').evaluate((pre) => getComputedStyle(pre).whiteSpace);
	await expect.poll(wraps).toBe('pre-wrap');
	await page.waitForTimeout(300);
	await page.reload();
	await expect.poll(wraps).toBe('pre-wrap');
});
