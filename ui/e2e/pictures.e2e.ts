import { test } from 'vitest';
import { openApp, pictures, send, sendInFourTabs, useBrowser } from './app';

useBrowser();

const sizes = [
	{ name: 'wide', viewport: { width: 1280, height: 850 } },
	{ name: 'narrow', viewport: { width: 800, height: 700 } },
] as const;

for (const colorScheme of ['light', 'dark'] as const) {
	for (const { name, viewport } of sizes) {
		test(`pictures of the app, ${colorScheme}, ${name}`, async () => {
			const shot = (page: Awaited<ReturnType<typeof openApp>>, what: string) =>
				page.screenshot({ path: `${pictures}/${what}-${colorScheme}-${name}.png` });
			const fresh = await openApp('fresh', { colorScheme, viewport });
			await fresh.getByTestId('empty-chat').waitFor();
			await shot(fresh, 'empty');
			await fresh.close();

			const page = await openApp('fourTabs', { colorScheme, viewport });
			await sendInFourTabs(page);
			await page.getByTestId('toggle-overlay').click();
			await page.getByTestId('tab').nth(0).click();
			await page.waitForTimeout(700);
			await shot(page, 'streaming');
			await page.locator('[data-testid=receipt]').first().waitFor();
			await page.locator('[data-testid=receipt] button').first().click();
			await shot(page, 'receipt');
			await page.getByTestId('toggle-overlay').click();
			await page.getByTestId('tab').nth(2).click();
			await page.waitForTimeout(1500);
			await page.getByTestId('open-tab-settings').click();
			await page.getByTestId('setting-logprobs').fill('5');
			await page.getByTestId('setting-topP').fill('1.5');
			await shot(page, 'tab-settings');
			await page.getByTestId('setting-topP').fill('0.9');
			await page.waitForTimeout(500);
			await send(page, 'Once more, with logprobs.');
			await page.getByTestId('tab').nth(3).click();
			await send(page, 'And what about water?');
			await page.getByTestId('open-tab-settings').click();
			await page.getByTestId('toggle-overlay').click();
			await page.locator('[data-testid=gate-mode] label').nth(1).click();
			await page.waitForTimeout(900);
			await page.getByTestId('tab').nth(3).hover();
			await shot(page, 'strict');
			await page.getByTestId('toggle-overlay').click();
			await page.getByTestId('open-settings').click();
			await page.waitForTimeout(300);
			await shot(page, 'settings');
			await page.close();

			const failed = await openApp('engineFailed', { colorScheme, viewport });
			await failed.getByTestId('engine-failed').waitFor();
			await shot(failed, 'engine-failed');
		});
	}
}
