import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { openApp, send, sendInFourTabs, useBrowser } from './app';

useBrowser();

const lastAnswer = (page: Page) => page.locator('[data-testid=message][data-role=assistant]').last();
const answerText = async (page: Page) =>
	(await lastAnswer(page).getByTestId('answer-text').textContent()) ?? '';

/** Changes settings of the shown tab and waits until they are saved. */
async function withSettings(page: Page, change: () => Promise<void>) {
	await page.getByTestId('open-tab-settings').click();
	await change();
	await page.waitForTimeout(500);
	await page.getByTestId('open-tab-settings').click();
}

test('structured output is checked while it is typed, announced before sending, and folds into the step', async () => {
	const page = await openApp('fourTabs');
	await withSettings(page, async () => {
		await page.getByTestId('setting-structureKind').getByText('JSON').click();
		await page.getByText('The schema is empty').waitFor();
		await page.getByTestId('setting-structureText').fill('{ "type": ');
		await page.getByText('The schema is not JSON yet').waitFor();
		await page.getByTestId('setting-structureText').fill('{ "type": "object" }');
	});
	await expect
		.poll(() => page.getByTestId('forecast-note').textContent())
		.toContain('This tab will sample per row: JSON schema.');
	await sendInFourTabs(page);
	await page.getByTestId('toggle-overlay').click();
	const lane = page.locator('[data-testid=lane][data-conversation-id="1"]');
	await expect.poll(() => lane.textContent()).toContain('per row: structured output');
	await page.getByTestId('gate-mode').getByText('Folded').click();
	await expect.poll(() => lane.textContent()).toContain('fused with mask');
	await page.getByTestId('tab').nth(0).click();
	await page.getByTestId('receipt').waitFor();
	expect(JSON.parse(await answerText(page))).toMatchObject({ city: 'Paris' });
	await page.reload();
	await page.getByTestId('open-tab-settings').click();
	expect(await page.getByTestId('setting-structureText').innerText()).toBe('{ "type": "object" }');
});

test('a refusal of the engine names the place, and leads to the settings', async () => {
	const page = await openApp('grammarRefused');
	await withSettings(page, async () => {
		await page.getByTestId('setting-structureKind').getByText('Regex').click();
		await page.getByTestId('setting-structureText').fill('a+');
	});
	await send(page, 'Match it.');
	const failure = page.getByTestId('answer-failure');
	await expect.poll(() => failure.textContent()).toContain('/properties/name/format');
	await failure.getByText('Open tab settings').click();
	await page.getByTestId('tab-settings').waitFor();
});

test('an answer that is cut off says that it is incomplete; one that never fits says how much is missing', async () => {
	const page = await openApp('incomplete');
	await send(page, 'Go on.');
	await expect.poll(() => page.getByTestId('answer-state').textContent()).toContain('Incomplete');
	const large = await openApp('tooLarge');
	await send(large, 'Everything.');
	await expect.poll(() => large.getByTestId('answer-failure').textContent()).toContain('needs 9.0 GiB');
});

test('after a fault of the engine, Try again writes another version', async () => {
	const page = await openApp('answerFault');
	await send(page, 'Fail, please.');
	await page.getByTestId('answer-failure').getByRole('button', { name: 'Try again' }).click();
	await expect.poll(() => lastAnswer(page).getByTestId('version').textContent()).toBe('2 / 2');
});

test('thinking is folded, counted against its budget, and comes back after a restart', async () => {
	const page = await openApp('fourTabs');
	await withSettings(page, () => page.getByTestId('setting-thinkingBudget').fill('6'));
	await send(page, 'Think first.');
	const block = page.getByTestId('thinking');
	await block.waitFor();
	expect(await page.getByTestId('thinking-text').count(), 'folded').toBe(0);
	await page.getByTestId('receipt').waitFor();
	expect(await block.textContent()).toContain('6 of 6 tokens');
	await page.reload();
	await block.getByRole('button').click();
	expect(await page.getByTestId('thinking-text').textContent()).toContain('The person');
	expect(await answerText(page)).not.toContain('The person');
});

test('tokens show their alternatives and what the bias changed, also after a restart', async () => {
	const page = await openApp('fourTabs');
	await withSettings(page, async () => {
		await page.getByTestId('setting-logprobs').fill('3');
		await page.getByTestId('add-bias').click();
		await page.getByTestId('bias-target').fill(' Paris');
		await page.getByTestId('bias-value').fill('200');
		await page.getByText('Bias of “ Paris” must be a number').waitFor();
		await page.getByTestId('bias-value').fill('2');
		await page.getByTestId('setting-wantsBiasTrace').check();
	});
	await send(page, 'Which tokens?');
	await page.getByTestId('receipt').waitFor();
	await page.reload();
	await page.getByTestId('show-tokens').click();
	await page.getByTestId('token').nth(2).click();
	expect(await page.getByTestId('alternative').count()).toBe(3);
	expect(await page.getByTestId('bias-effect').textContent()).toContain('“ London” would have been');
	await page.keyboard.press('ArrowRight');
	await expect.poll(() => page.locator('[data-testid=token][aria-pressed=true]').count()).toBe(1);
	expect(await page.getByTestId('token').nth(3).getAttribute('aria-pressed')).toBe('true');
});

test('regenerating keeps every version; the same seed gives the same text', async () => {
	const page = await openApp('fourTabs');
	await send(page, 'Again?');
	await page.getByTestId('receipt').waitFor();
	const first = await answerText(page);
	await page.getByTestId('regenerate').click();
	await expect.poll(() => page.getByTestId('version').textContent()).toBe('2 / 2');
	const seed = () => page.getByTestId('receipt').getAttribute('data-seed');
	const second = [await answerText(page), await seed()];
	await page.getByTestId('regenerate-same').click();
	await expect.poll(() => page.getByTestId('version').textContent()).toBe('3 / 3');
	expect(await seed()).toBe(second[1]);
	await page.getByTestId('previous-version').click();
	await page.getByTestId('previous-version').click();
	await expect.poll(() => page.getByTestId('version').textContent()).toBe('1 / 3');
	expect(await answerText(page)).toBe(first);
	await page.waitForTimeout(300);
	await page.reload();
	await expect.poll(() => page.getByTestId('version').textContent()).toBe('1 / 3');
});

test('the overlap is switched and kept', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('toggle-overlay').click();
	await page.getByTestId('overlap-mode').getByText('Off').click();
	await expect.poll(() => page.getByTestId('overlap-mode').getAttribute('data-value')).toBe('off');
	await send(page, 'Step by step.');
	await expect.poll(() => page.getByTestId('overlap-now').textContent()).toContain('off: switched off');
	await page.waitForTimeout(500);
	await page.reload();
	await expect.poll(() => page.getByTestId('overlap-mode').getAttribute('data-value')).toBe('off');
});
