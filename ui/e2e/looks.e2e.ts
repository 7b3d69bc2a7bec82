import { expect, test } from 'vitest';
import { openApp, send, sendInFourTabs, useBrowser } from './app';
import { seriousFindings } from './axe';

useBrowser();

for (const colorScheme of ['light', 'dark'] as const) {
	test(`axe has no serious finding, ${colorScheme}`, async () => {
		const page = await openApp('fourTabs', { colorScheme, reducedMotion: 'reduce' });
		await sendInFourTabs(page);
		await page.getByTestId('toggle-overlay').click();
		await page.locator('[data-testid=performance-overlay][data-batch-rows="4"]').waitFor();
		expect(await seriousFindings(page), 'while four tabs answer').toEqual([]);
		await page.getByTestId('tab').nth(2).click();
		await page.getByTestId('receipt').waitFor();
		await page.locator('[data-testid=receipt] button').click();
		await page.getByTestId('toggle-overlay').click();
		await page.getByTestId('open-tab-settings').click();
		await page.getByTestId('setting-logprobs').fill('5');
		await page.getByTestId('setting-topP').fill('2');
		expect(await seriousFindings(page), 'with code, a receipt and tab settings').toEqual([]);
		await page.keyboard.press('Escape');
		await page.getByTestId('open-settings').click();
		await page.getByTestId('settings-help').click();
		await page.getByTestId('toggle-licences').click();
		await page.getByTestId('licences').waitFor();
		expect(await seriousFindings(page), 'in the settings').toEqual([]);
		const failed = await openApp('engineFailed', { colorScheme, reducedMotion: 'reduce' });
		await failed.getByTestId('engine-failed').waitFor();
		expect(await seriousFindings(failed), 'with a failed engine').toEqual([]);
	});
}

test('the theme follows the system, can be set, and is kept', async () => {
	const page = await openApp('fresh', { colorScheme: 'dark' });
	const theme = () => page.evaluate(() => document.documentElement.dataset['theme']);
	await expect.poll(theme).toBe('dark');
	await page.emulateMedia({ colorScheme: 'light' });
	await expect.poll(theme).toBe('light');
	await page.getByTestId('open-settings').click();
	await page.getByTestId('theme').getByText('Dark').click();
	await expect.poll(theme).toBe('dark');
	await page.waitForTimeout(500);
	await page.reload();
	await page.getByTestId('composer').waitFor();
	await expect.poll(theme).toBe('dark');
});

test('nothing leaves the page: no request to another origin, whatever an answer says', async () => {
	const page = await openApp('fourTabs');
	const { origin } = new URL(page.url());
	const foreign: string[] = [];
	page.on('request', (request) => {
		if (!request.url().startsWith(origin) && !request.url().startsWith('data:')) foreign.push(request.url());
	});
	await page.getByTestId('tab').nth(3).click();
	await send(page, 'Show me a picture.');
	await page.getByTestId('receipt').waitFor();
	expect(await page.locator('img').count()).toBe(0);
	expect(foreign).toEqual([]);
});
