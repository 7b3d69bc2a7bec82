import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { openApp, send, sendInFourTabs, useBrowser } from './app';

useBrowser();

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Finding {
	id: string;
	impact: string;
	where: string[];
}

/** Serious and critical findings of axe on the page as it is now. */
async function findings(page: Page): Promise<Finding[]> {
	await page.evaluate(axe);
	return page.evaluate(async () => {
		const run = (window as unknown as { axe: { run(): Promise<{ violations: AxeViolation[] }> } }).axe.run();
		interface AxeViolation {
			id: string;
			impact: string;
			nodes: { html: string; failureSummary: string }[];
		}
		const { violations } = await run;
		return violations
			.filter(({ impact }) => impact === 'serious' || impact === 'critical')
			.map(({ id, impact, nodes }) => ({
				id,
				impact,
				where: nodes.map((node) => `${node.html.slice(0, 120)} ${node.failureSummary.slice(0, 200)}`),
			}));
	});
}

for (const colorScheme of ['light', 'dark'] as const) {
	test(`axe has no serious finding, ${colorScheme}`, async () => {
		const page = await openApp('fourTabs', { colorScheme, reducedMotion: 'reduce' });
		await sendInFourTabs(page);
		await page.getByTestId('toggle-overlay').click();
		await page.locator('[data-testid=performance-overlay][data-batch-rows="4"]').waitFor();
		expect(await findings(page), 'while four tabs answer').toEqual([]);
		await page.getByTestId('tab').nth(2).click();
		await page.getByTestId('receipt').waitFor();
		await page.locator('[data-testid=receipt] button').click();
		await page.getByTestId('toggle-overlay').click();
		await page.getByTestId('open-tab-settings').click();
		await page.getByTestId('setting-logprobs').fill('5');
		await page.getByTestId('setting-topP').fill('2');
		expect(await findings(page), 'with code, a receipt and tab settings').toEqual([]);
		await page.keyboard.press('Escape');
		await page.getByTestId('open-settings').click();
		await page.getByTestId('toggle-licences').click();
		await page.getByTestId('licences').waitFor();
		expect(await findings(page), 'in the settings').toEqual([]);
		const failed = await openApp('engineFailed', { colorScheme, reducedMotion: 'reduce' });
		await failed.getByTestId('engine-failed').waitFor();
		expect(await findings(failed), 'with a failed engine').toEqual([]);
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
