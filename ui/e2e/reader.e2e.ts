import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { openApp, send, useBrowser } from './app';

useBrowser();

/** Everything that can take the focus and has no name for those who do not see it. */
async function nameless(page: Page): Promise<string[]> {
	const snapshot = await page.locator('body').ariaSnapshot();
	const controls =
		/^\s*- (?:button|link|textbox|combobox|checkbox|radio|switch|slider|tab|option|searchbox)\b/;
	return snapshot.split('\n').filter((line) => controls.test(line) && !/"[^"]+"|\/.+\//.test(line));
}

/** The names of what Tab reaches, in order, until it comes round. */
async function focusOrder(page: Page, most: number): Promise<string[]> {
	const names: string[] = [];
	for (let i = 0; i < most; i += 1) {
		await page.keyboard.press('Tab');
		names.push(
			await page.evaluate(() => {
				const { activeElement: element } = document;
				const label = element?.getAttribute('aria-label') ?? element?.textContent ?? '';
				return label.trim().replace(/\s+/g, ' ');
			}),
		);
	}
	return names;
}

test('every control of the main screens has a name, and nothing leaks into names', async () => {
	const page = await openApp('fourTabs', { reducedMotion: 'reduce' });
	await page.getByTestId('empty-chat').waitFor();
	const check = async (screen: string) => {
		expect(await nameless(page), screen).toEqual([]);
		const snapshot = await page.locator('body').ariaSnapshot();
		expect(snapshot, screen).not.toMatch(/\[object|undefined|NaN|\{\{/);
	};
	await check('an empty chat');
	await send(page, 'What is the capital of France?');
	await page.getByTestId('receipt').waitFor();
	await page.getByTestId('toggle-overlay').click();
	await check('an answer and the overlay');
	await page.getByTestId('open-tab-settings').click();
	await page.getByTestId('tab-settings').waitFor();
	await check('settings of a tab');
	await page.keyboard.press('Escape');
	await page.keyboard.press('Control+,');
	await page.getByTestId('settings-view').waitFor();
	for (const section of ['appearance', 'newChats', 'model', 'servers', 'localServer', 'data', 'help']) {
		await page.getByTestId(`settings-${section}`).click();
		await check(`settings, ${section}`);
	}
	await page.keyboard.press('Control+Shift+M');
	await page.getByTestId('models-view').waitFor();
	await check('models');
	await page.keyboard.press('Control+K');
	await page.getByTestId('palette').waitFor();
	await check('palette');
});

test('one region tells how an answer goes, each phase once', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('empty-chat').waitFor();
	await page.evaluate(() => {
		const heard: string[] = [];
		Object.assign(window, { heard });
		const region = document.querySelector('[data-testid=announcement]');
		const note = () => heard.push(region?.textContent ?? '');
		if (region)
			new MutationObserver(note).observe(region, { childList: true, characterData: true, subtree: true });
	});
	await send(page, 'What is the capital of France?');
	await page.getByTestId('receipt').waitFor();
	await expect.poll(() => page.getByTestId('announcement').textContent()).toBe('The answer is ready');
	const heard = await page.evaluate(() => (window as unknown as { heard: string[] }).heard);
	expect(heard).toContain('Answering');
	expect(new Set(heard).size, 'no phase is told twice').toBe(heard.length);
	expect(heard.length, 'tokens and percents are not told').toBeLessThan(6);
});

test('Tab goes from the strip of tabs to the sidebar and then to the message', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('empty-chat').waitFor();
	await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
	const names = await focusOrder(page, 40);
	const at = (pattern: RegExp) => names.findIndex((name) => pattern.test(name));
	const places = [
		at(/^Capital of France/),
		at(/^New tab/),
		at(/^Settings$/),
		at(/^Search conversations/),
		at(/^Message$/),
	];
	expect(
		places.every((place) => place >= 0),
		names.join(' | '),
	).toBe(true);
	expect([...places].sort((a, b) => a - b)).toEqual(places);
	expect(names.filter((name) => name === '')).toEqual([]);
});
