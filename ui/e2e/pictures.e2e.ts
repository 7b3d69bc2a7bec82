import { test } from 'vitest';
import { openApp, pictures, send, sendInFourTabs, useBrowser } from './app';

useBrowser();

/** Each look and each size once; `screens.e2e.ts` goes through all of them. */
const looks = [
	{ colorScheme: 'light', name: 'wide', viewport: { width: 1280, height: 850 } },
	{ colorScheme: 'dark', name: 'narrow', viewport: { width: 800, height: 700 } },
] as const;

for (const { colorScheme, name, viewport } of looks) {
	test(`pictures of the app, ${colorScheme}, ${name}`, { timeout: 120_000 }, async () => {
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
		await page.getByTestId('gate-mode').getByText('Strict').click();
		await page.waitForTimeout(900);
		await page.getByTestId('tab').nth(3).hover();
		await shot(page, 'strict');
		await page.getByTestId('toggle-overlay').click();
		await page.getByTestId('open-settings').click();
		await page.getByTestId('settings-performance').click();
		await page.waitForTimeout(300);
		await shot(page, 'settings');
		await page.close();

		const deep = await openApp('fourTabs', { colorScheme, viewport });
		await deep.getByTestId('open-tab-settings').click();
		await deep.getByTestId('setting-thinkingBudget').fill('12');
		await deep.getByTestId('setting-logprobs').fill('4');
		await deep.getByTestId('setting-structureKind').getByText('JSON').click();
		await deep.getByTestId('setting-structureText').fill('{ "type": "object", ');
		await shot(deep, 'structure-settings');
		await deep.getByTestId('setting-structureText').fill('{ "type": "object" }');
		await deep.getByTestId('add-bias').click();
		await deep.getByTestId('bias-target').fill(' Paris');
		await deep.getByTestId('bias-value').fill('2.5');
		await deep.getByTestId('setting-wantsBiasTrace').check();
		await deep.getByTestId('bias-value').scrollIntoViewIfNeeded();
		await shot(deep, 'bias-settings');
		await deep.waitForTimeout(500);
		await deep.getByTestId('open-tab-settings').click();
		await send(deep, 'Name a city as JSON.');
		await deep.getByTestId('thinking').waitFor();
		await deep.getByTestId('thinking').getByRole('button').click();
		await shot(deep, 'thinking');
		await deep.getByTestId('receipt').waitFor();
		await deep.getByTestId('regenerate').click();
		await deep.getByTestId('versions').waitFor();
		await deep.getByTestId('show-tokens').click();
		await deep.getByTestId('token').nth(20).click();
		await deep.getByTestId('token-card').scrollIntoViewIfNeeded();
		await shot(deep, 'tokens');
		await deep.close();

		const refused = await openApp('grammarRefused', { colorScheme, viewport });
		await refused.getByTestId('open-tab-settings').click();
		await refused.getByTestId('setting-structureKind').getByText('Regex').click();
		await refused.getByTestId('setting-structureText').fill('a+');
		await refused.waitForTimeout(500);
		await refused.getByTestId('open-tab-settings').click();
		await send(refused, 'Match it.');
		await refused.getByTestId('answer-failure').waitFor();
		await shot(refused, 'grammar-refused');
		await refused.close();

		const failed = await openApp('engineFailed', { colorScheme, viewport });
		await failed.getByTestId('engine-failed').waitFor();
		await shot(failed, 'engine-failed');
	});

	test(`pictures of the models, ${colorScheme}, ${name}`, { timeout: 120_000 }, async () => {
		const open = (scenario: string) => openApp(scenario, { colorScheme, viewport });
		const shot = async (page: Awaited<ReturnType<typeof openApp>>, what: string) => {
			await page.screenshot({ path: `${pictures}/models-${what}-${colorScheme}-${name}.png` });
			await page.close();
		};
		const row = (page: Awaited<ReturnType<typeof openApp>>, model: string) =>
			page.getByTestId('model').filter({ hasText: model });

		const menu = await open('models');
		await menu.getByTestId('model-chip').click();
		await menu.getByTestId('model-menu').waitFor();
		await shot(menu, 'menu');

		const fit = await open('models');
		await fit.getByTestId('open-models').click();
		await row(fit, 'Qwen3-4B').getByTestId('open-fit').click();
		await fit.getByTestId('start-load').waitFor();
		await shot(fit, 'fit');

		const large = await open('models');
		await large.getByTestId('open-models').click();
		await row(large, 'Llama-3.3').getByTestId('open-fit').click();
		await large.getByTestId('load-anyway').click();
		await large.getByTestId('confirm-load').scrollIntoViewIfNeeded();
		await shot(large, 'too-large');

		const loading = await open('slowLoad');
		await loading.getByTestId('open-models').click();
		await row(loading, 'tiny-gemma').getByTestId('open-fit').click();
		await loading.getByTestId('start-load').click();
		await loading.locator('[data-testid=load-progress][aria-valuenow="10"]').waitFor();
		await loading.getByTestId('import-folder').click();
		await loading.getByTestId('import-choice').waitFor();
		await shot(loading, 'loading');

		const failed = await open('loadFails');
		await failed.getByTestId('open-models').click();
		await row(failed, 'tiny-gemma').getByTestId('open-fit').click();
		await failed.getByTestId('start-load').click();
		await failed.getByTestId('load-failure').waitFor();
		await row(failed, 'Phi-3').getByTestId('delete-model').click();
		await shot(failed, 'failed');

		const more = await open('models');
		await more.getByTestId('open-models').click();
		await more.getByTestId('section-more').click();
		await more.getByTestId('hub-search').fill('mlx');
		await more.locator('[data-testid=remote-model] > button').nth(0).click();
		await more.getByTestId('start-download').waitFor();
		await shot(more, 'search');

		const downloads = await open('downloadFails');
		await downloads.getByTestId('open-models').click();
		await downloads.getByTestId('section-more').click();
		await downloads.getByTestId('hub-search').fill('mlx');
		await downloads.locator('[data-testid=remote-model] > button').nth(0).click();
		await downloads.getByTestId('start-download').click();
		await downloads.getByTestId('download-failure').waitFor();
		await downloads.locator('[data-testid=remote-model] > button').nth(1).click();
		await downloads.getByTestId('start-download').click();
		await downloads.locator('[data-testid=hub-settings] summary').click();
		await downloads.getByTestId('models-view').evaluate((view) => view.scrollTo(0, 0));
		await shot(downloads, 'downloads');

		const none = await open('noModel');
		await none.getByTestId('composer-blocked').waitFor();
		await shot(none, 'none');
	});
}
