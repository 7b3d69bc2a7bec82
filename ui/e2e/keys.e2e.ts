import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { openApp, pictures, sendInFourTabs, useBrowser } from './app';
import { seriousFindings } from './axe';
import { windowShortcuts, writingShortcuts } from '../src/lib/shortcuts';

useBrowser();

const sheet = (page: Page) => page.getByTestId('shortcut-sheet');
const focused = (page: Page) =>
	page.evaluate(() => document.activeElement?.getAttribute('data-testid') ?? null);

/** Elements that stick out of the window, or whose text sticks out of them, in words. */
function overflowing(page: Page) {
	return page.evaluate(() => {
		const inScroller = (element: Element): boolean => {
			for (let at = element.parentElement; at; at = at.parentElement)
				if (/(auto|scroll)/.test(getComputedStyle(at).overflowX) && at.scrollWidth > at.clientWidth)
					return true;
			return false;
		};
		const name = (element: Element) =>
			`${element.tagName} ${element.getAttribute('data-testid') ?? ''} .${element.getAttribute('class') ?? ''} ${(element.textContent ?? '').trim().slice(0, 30)}`;
		return [...document.querySelectorAll<HTMLElement>('body *')]
			.filter((element) => {
				const box = element.getBoundingClientRect();
				const style = getComputedStyle(element);
				if (box.width <= 1 || box.height <= 1 || style.opacity === '0' || inScroller(element)) return false;
				if (box.right > innerWidth + 1 || box.left < -1) return true;
				const isBox = style.display !== 'inline' && style.overflowX === 'visible';
				return isBox && element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1;
			})
			.map(name);
	});
}

test('the sheet opens by key, lists all of the table, keeps the focus and closes with Escape', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('composer').fill('Is this a question');
	await page.getByTestId('composer').press('?');
	expect(await page.getByTestId('composer').inputValue(), 'a field takes its own keys').toBe(
		'Is this a question?',
	);
	expect(await sheet(page).count()).toBe(0);
	await page.keyboard.press('Control+/');
	await sheet(page).waitFor();
	expect(await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).count()).toBe(1);
	const listed = await page
		.getByTestId('shortcut')
		.evaluateAll((lines) => lines.map((line) => (line as HTMLElement).dataset['action']));
	expect(listed).toEqual([...windowShortcuts, ...writingShortcuts].map(({ action }) => action));
	for (const key of ['Tab', 'Tab', 'Tab', 'Shift+Tab', 'Shift+Tab', 'Shift+Tab', 'Shift+Tab']) {
		await page.keyboard.press(key);
		expect(await sheet(page).evaluate((dialog) => dialog.contains(document.activeElement))).toBe(true);
	}
	await page.keyboard.press('Control+t');
	expect(await page.getByTestId('tab').count(), 'what lies below takes no keys').toBe(4);
	await page.keyboard.press('Escape');
	await expect.poll(() => sheet(page).count()).toBe(0);
	expect(await focused(page)).toBe('composer');
	await page.getByTestId('toggle-sidebar').focus();
	await page.keyboard.press('?');
	await sheet(page).waitFor();
	await page.keyboard.press('?');
	await expect.poll(() => sheet(page).count()).toBe(0);
	expect(await focused(page)).toBe('toggle-sidebar');
});

for (const colorScheme of ['light', 'dark'] as const) {
	test(`axe has no serious finding in the sheet, ${colorScheme}`, async () => {
		const page = await openApp('fourTabs', { colorScheme });
		await page.getByTestId('composer').waitFor();
		await page.keyboard.press('Control+/');
		await sheet(page).waitFor();
		expect(await seriousFindings(page)).toEqual([]);
		await page.screenshot({ path: `${pictures}/sheet-${colorScheme}.png` });
	});
}

const palette = (page: Page) => page.getByTestId('palette');
const chosen = (page: Page) =>
	page.locator('[data-testid=command][aria-selected=true]').getAttribute('data-command');

async function openPalette(page: Page, query: string) {
	await page.keyboard.press('Control+k');
	await palette(page).waitFor();
	await page.keyboard.type(query);
}

test('the palette finds a command, runs it with Enter and offers it first next time', async () => {
	const page = await openApp('models');
	await page.getByTestId('composer').click();
	await openPalette(page, 'dark');
	await expect.poll(() => chosen(page)).toBe('theme-dark');
	await page.keyboard.press('Enter');
	await expect.poll(() => palette(page).count()).toBe(0);
	await expect.poll(() => page.evaluate(() => document.documentElement.dataset['theme'])).toBe('dark');
	expect(await focused(page), 'the focus is where it was').toBe('composer');
	await openPalette(page, '');
	expect(await chosen(page), 'what was run lately is first').toBe('theme-dark');
	await page.keyboard.press('Enter');
	expect(await palette(page).count(), 'it is in use already, so nothing happens').toBe(1);
	const words = await page.locator('[data-command=theme-dark]').textContent();
	expect(words).toContain('It is in use already');
	await page.keyboard.press('Escape');
	await openPalette(page, 'rainb');
	await page.keyboard.press('Enter');
	await expect
		.poll(() => page.locator('[role=tab][aria-selected=true]').innerText())
		.toContain('How rainbows form');
	await openPalette(page, 'search');
	await page.keyboard.press('Enter');
	await expect.poll(() => focused(page), { message: 'a command may move the focus' }).toBe('search');
	await openPalette(page, 'tiny gemma');
	await page.keyboard.press('Enter');
	await expect.poll(() => page.getByTestId('model-chip').innerText()).toContain('tiny-gemma');
	await openPalette(page, 'zzzz');
	await page.getByTestId('no-command').waitFor();
	expect(await seriousFindings(page), 'with nothing found').toEqual([]);
});

test('arrows go round the list while the focus stays in the field', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('composer').click();
	await openPalette(page, 'tab');
	const options = page.getByTestId('command');
	const field = page.getByTestId('palette-query');
	const ids = await options.evaluateAll((lines) => lines.map((line) => line.id));
	expect(ids.length).toBeGreaterThan(3);
	for (const [key, at] of [
		['ArrowDown', 1],
		['ArrowDown', 2],
		['ArrowUp', 1],
		['ArrowUp', 0],
		['ArrowUp', -1],
		['ArrowDown', 0],
	] as const) {
		await page.keyboard.press(key);
		await expect.poll(() => field.getAttribute('aria-activedescendant')).toBe(ids.at(at));
	}
	expect(await focused(page)).toBe('palette-query');
	await page.keyboard.press('Tab');
	expect(await focused(page), 'it is the only thing to focus').toBe('palette-query');
	await field.fill('keyboard');
	await page.keyboard.press('Enter');
	await sheet(page).waitFor();
	expect(await palette(page).count()).toBe(0);
	await page.keyboard.press('Escape');
	await expect.poll(() => sheet(page).count()).toBe(0);
	expect(await focused(page)).toBe('composer');
});

for (const colorScheme of ['light', 'dark'] as const) {
	test(`axe has no serious finding in the palette, ${colorScheme}`, async () => {
		const page = await openApp('models', { colorScheme });
		await page.getByTestId('composer').click();
		await openPalette(page, '');
		expect(await seriousFindings(page)).toEqual([]);
		await page.screenshot({ path: `${pictures}/palette-${colorScheme}.png` });
		await page.keyboard.type('lo');
		await page.screenshot({ path: `${pictures}/palette-query-${colorScheme}.png` });
	});
}

test('keys change the size of text, it is kept, and the settings show it', async () => {
	const page = await openApp('fresh');
	const size = () =>
		page.getByTestId('composer').evaluate((field) => parseFloat(getComputedStyle(field).fontSize));
	const usual = await size();
	await page.getByTestId('composer').focus();
	await page.keyboard.press('Control++');
	await page.keyboard.press('Control+=');
	await expect.poll(size).toBeCloseTo(usual * 1.2, 1);
	await page.waitForTimeout(500);
	await page.reload();
	await page.getByTestId('composer').waitFor();
	await expect.poll(size).toBeCloseTo(usual * 1.2, 1);
	await page.keyboard.press('Control+,');
	expect(await page.getByTestId('text-size').getAttribute('data-value')).toBe('120');
	await page.getByTestId('text-size').getByText('Small').click();
	await expect.poll(() => page.getByTestId('text-size-percent').textContent()).toBe('90 %');
	for (let press = 0; press < 8; press += 1) await page.keyboard.press('Control++');
	expect(await page.getByTestId('text-size-percent').textContent()).toBe('150 %');
	await page.keyboard.press('Control+0');
	expect(await page.getByTestId('text-size-percent').textContent()).toBe('100 %');
	await page.keyboard.press('Control+-');
	expect(await page.getByTestId('text-size-percent').textContent()).toBe('90 %');
});

for (const percent of [100, 150]) {
	test(`nothing sticks out at 1000 px with text at ${percent} %`, { timeout: 120_000 }, async () => {
		const page = await openApp('models', { viewport: { width: 1000, height: 720 } });
		await page.getByTestId('composer').waitFor();
		const steps = (percent - 100) / 10;
		for (let press = 0; press < steps; press += 1) await page.keyboard.press('Control++');
		const scale = () => page.evaluate(() => document.documentElement.style.getPropertyValue('--text-scale'));
		await expect.poll(scale).toBe(String(percent / 100));
		const look = async (what: string) => {
			await page.screenshot({ path: `${pictures}/text-${percent}-${what}.png` });
			expect.soft(await overflowing(page), what).toEqual([]);
		};
		await look('four-tabs');
		await sendInFourTabs(page);
		await page.getByTestId('toggle-overlay').click();
		await page.locator('[data-testid=performance-overlay][data-batch-rows="4"]').waitFor();
		await look('overlay');
		await page.getByTestId('toggle-overlay').click();
		await page.getByTestId('tab').nth(2).click();
		await page.getByTestId('receipt').waitFor();
		await page.locator('[data-testid=receipt] button').click();
		await look('receipt');
		await page.getByTestId('open-tab-settings').click();
		await look('tab-settings');
		await page.keyboard.press('Control+,');
		await page.getByTestId('settings-view').waitFor();
		await look('settings');
		await page.getByTestId('theme').scrollIntoViewIfNeeded();
		await look('settings-appearance');
		await page.keyboard.press('Control+Shift+M');
		await page.locator('[data-testid=model]', { hasText: 'Qwen3-4B' }).getByTestId('open-fit').click();
		await page.getByTestId('fit-panel').waitFor();
		await look('models');
		await page.getByTestId('model-chip').click();
		await page.getByTestId('model-menu').waitFor();
		await look('model-menu');
		await page.keyboard.press('Escape');
		await page.getByTestId('toggle-sidebar').focus();
		await page.keyboard.press('Control+/');
		await sheet(page).waitFor();
		await look('sheet');
		const wide = await sheet(page)
			.locator('.groups')
			.evaluate((groups) => groups.scrollWidth - groups.clientWidth);
		expect.soft(wide, 'the sheet scrolls down, not sideways').toBeLessThan(1);
		await page.keyboard.press('Control+k');
		await palette(page).waitFor();
		await look('palette');
	});
}

for (const reducedMotion of ['no-preference', 'reduce'] as const) {
	test(`what moves stands still where the system asks for it: ${reducedMotion}`, async () => {
		const page = await openApp('engineLoading', { reducedMotion });
		await page.getByTestId('engine-loading').waitFor();
		const running = () => page.evaluate(() => document.getAnimations().length);
		const moves = reducedMotion === 'no-preference';
		expect((await running()) > 0, 'the bar of the load').toBe(moves);
		await page.getByTestId('open-settings').hover();
		const seconds = await page
			.getByTestId('open-settings')
			.evaluate((button) => parseFloat(getComputedStyle(button).transitionDuration));
		expect(seconds > 0, 'the ground of a button').toBe(moves);
	});
}
