import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { openApp, pictures, send, useBrowser } from './app';

useBrowser();

const languages = [
	{ locale: 'de-DE', lang: 'de', send: 'Senden' },
	{ locale: 'zh-CN', lang: 'zh-Hans', send: '发送' },
] as const;

const sizes = [
	{ name: 'wide', viewport: { width: 1280, height: 850 }, textScale: '1' },
	{ name: 'narrow', viewport: { width: 800, height: 700 }, textScale: '1' },
	{ name: 'large-text', viewport: { width: 800, height: 700 }, textScale: '1.5' },
	// What a window of 1280 by 900 shows at 200 %.
	{ name: 'zoomed', viewport: { width: 640, height: 450 }, textScale: '1' },
] as const;

/** Words that are cut off or stand out of the window, and keys of the catalogue that nobody replaced. */
async function defects(page: Page): Promise<string[]> {
	return page.evaluate(() => {
		const found: string[] = [];
		const words = (element: Element) => (element.textContent ?? '').trim().replace(/\s+/g, ' ').slice(0, 50);
		const scrollsSideways = (element: Element | null): boolean =>
			element !== null &&
			((/auto|scroll/.test(getComputedStyle(element).overflowX) &&
				element.scrollWidth > element.clientWidth) ||
				scrollsSideways(element.parentElement));
		for (const element of document.querySelectorAll<HTMLElement>('body *')) {
			const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent?.trim());
			const names = ['aria-label', 'title', 'placeholder'].map((name) => element.getAttribute(name) ?? '');
			for (const text of [hasText ? words(element) : '', ...names]) {
				if (/\b[a-z][a-zA-Z]*:[a-z][a-zA-Z]+\b/.test(text)) found.push(`key: ${text}`);
				if (/\[object|undefined|NaN|\{\{|<m>/.test(text)) found.push(`leak: ${text}`);
			}
			if (!hasText || !element.checkVisibility({ checkVisibilityCSS: true })) continue;
			const style = getComputedStyle(element);
			const box = element.getBoundingClientRect();
			if (box.width <= 1 || box.height <= 1) continue;
			const isCut = element.scrollWidth > element.clientWidth + 1 && style.overflowX === 'hidden';
			if (isCut && style.textOverflow !== 'ellipsis') found.push(`cut: ${words(element)}`);
			if (box.right > innerWidth + 1 && box.left < innerWidth && !scrollsSideways(element)) {
				found.push(`outside: ${words(element)}`);
			}
		}
		if (document.documentElement.scrollWidth > innerWidth) found.push('the window scrolls sideways');
		return [...new Set(found)];
	});
}

for (const { locale, lang, send: sendWord } of languages) {
	for (const { name, viewport, textScale } of sizes) {
		test(`every screen has room for its words, ${lang}, ${name}`, { timeout: 120_000 }, async () => {
			const found: string[] = [];
			const look = async (page: Page, screen: string) => {
				await page.evaluate(
					(scale) => document.documentElement.style.setProperty('--text-scale', scale),
					textScale,
				);
				await page.screenshot({ path: `${pictures}/${lang}-${screen}-${name}.png` });
				found.push(...(await defects(page)).map((defect) => `${screen}: ${defect}`));
			};
			const open = (scenario: string) =>
				openApp(scenario, { locale, viewport, reducedMotion: 'reduce', deviceScaleFactor: 1 });

			const page = await open('fourTabs');
			await page.getByTestId('empty-chat').waitFor();
			expect(await page.evaluate(() => document.documentElement.lang)).toBe(lang);
			expect(await page.getByTestId('send').getAttribute('aria-label')).toBe(sendWord);
			await look(page, 'empty');
			await send(page, 'What is the capital of France?');
			await page.getByTestId('receipt').waitFor();
			await page.locator('[data-testid=receipt] button').first().click();
			await page.getByTestId('toggle-overlay').click();
			await look(page, 'answer');
			await page.getByTestId('toggle-overlay').click();
			await page.getByTestId('open-tab-settings').click();
			await page.getByTestId('setting-topP').fill('1.5');
			await look(page, 'tab-settings');
			await page.keyboard.press('Escape');
			await page.keyboard.press('Control+K');
			await page.getByTestId('palette').waitFor();
			await look(page, 'palette');
			await page.keyboard.press('Escape');
			await page.keyboard.press('Control+/');
			await page.getByTestId('shortcut-sheet').waitFor();
			await look(page, 'shortcuts');
			await page.keyboard.press('Escape');
			await page.keyboard.press('Control+,');
			await page.getByTestId('settings-view').waitFor();
			for (const section of await page.locator('[data-testid^=settings-]').all()) {
				const testid = (await section.getAttribute('data-testid')) ?? '';
				if (/view|back/.test(testid)) continue;
				await section.click();
				await page.waitForTimeout(150);
				await look(page, testid);
			}
			await page.close();

			const models = await open('models');
			await models.getByTestId('composer').waitFor();
			await models.keyboard.press('Control+Shift+M');
			await models.getByTestId('model').first().waitFor();
			await models.getByTestId('open-fit').first().click();
			await models.getByTestId('fit-panel').waitFor();
			await look(models, 'models');
			await models.getByTestId('section-more').click();
			await models.getByTestId('hub-search').fill('qwen');
			await models.getByTestId('remote-model').first().waitFor();
			await models.getByTestId('remote-model').first().getByRole('button').click();
			await models.getByTestId('remote-details').waitFor();
			await look(models, 'hub');
			await models.close();

			const failed = await open('engineFailed');
			await failed.getByTestId('engine-failed').waitFor();
			await look(failed, 'engine-failed');
			expect(found).toEqual([]);
		});
	}
}

test('another language shows at once, and is kept', async () => {
	const page = await openApp('fresh');
	await page.getByTestId('composer').fill('A draft.');
	await page.keyboard.press('Control+,');
	await page.getByTestId('language').selectOption('de');
	expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Einstellungen');
	expect(await page.evaluate(() => document.documentElement.lang)).toBe('de');
	await page.getByTestId('settings-back').click();
	expect(await page.getByTestId('composer').getAttribute('aria-label')).toBe('Nachricht');
	expect(await page.getByTestId('composer').inputValue(), 'nothing is loaded anew').toBe('A draft.');
	await page.waitForTimeout(500);
	await page.reload();
	await page.getByTestId('composer').waitFor();
	expect(await page.evaluate(() => document.documentElement.lang)).toBe('de');
	await page.keyboard.press('Control+,');
	await page.getByTestId('language').selectOption('');
	expect(await page.evaluate(() => document.documentElement.lang), 'as the system').toBe('en');
});
