import { mkdirSync } from 'node:fs';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { openApp, pictures, send, useBrowser } from './app';
import { seriousFindings } from './axe';

useBrowser();

/** What a window can be; at 200 % a window of 1280 pixels has room for 640. */
const windows: Record<string, BrowserContextOptions> = {
	light: { colorScheme: 'light' },
	dark: { colorScheme: 'dark' },
	narrow: { viewport: { width: 800, height: 700 } },
	zoomed: { viewport: { width: 640, height: 425 }, deviceScaleFactor: 2 },
	still: { reducedMotion: 'reduce' },
};

const close = (page: Page) => page.keyboard.press('Escape');

/** Every screen and dialog: how to get there from the one before, and back. */
const screens: Record<
	string,
	{ open: (page: Page) => Promise<void>; leave?: (page: Page) => Promise<void> }
> = {
	answer: {
		open: async (page) => {
			await send(page, 'What is the capital of France?');
			await page.getByTestId('receipt').waitFor();
		},
	},
	palette: { open: (page) => page.keyboard.press('Control+k'), leave: close },
	shortcuts: { open: (page) => page.keyboard.press('Control+/'), leave: close },
	'fan-out': {
		open: async (page) => {
			await page.getByTestId('composer').fill('Name a city.');
			await page.keyboard.press('Control+Shift+Enter');
			await page.getByTestId('fan-out').waitFor();
		},
		leave: close,
	},
	compare: {
		open: async (page) => {
			await page.getByTestId('composer').fill('Which season?');
			await page.keyboard.press('Control+Shift+Enter');
			await page.getByTestId('fan-out-go').click();
			await page.getByTestId('compare').waitFor();
			await page.locator('[data-testid=compared][data-state=complete]').nth(2).waitFor();
		},
		leave: (page) => page.getByTestId('close-compare').click(),
	},
	'edit-question': {
		open: async (page) => {
			await page.locator('[data-testid=message][data-role=user]').first().hover();
			await page.getByTestId('edit-question').first().click();
			await page.waitForTimeout(200);
			const top = (await page.getByTestId('edit-text').boundingBox())?.y;
			expect(top, 'the field is in sight, below the tabs').toBeGreaterThan(44);
		},
		leave: (page) => page.getByTestId('edit-cancel').click(),
	},
	'tab-settings': {
		open: async (page) => {
			await page.getByTestId('open-tab-settings').click();
			await page.getByTestId('tab-settings').waitFor();
		},
		// In a small window it lies over the button that opened it.
		leave: (page) => page.getByTestId('tab-settings').getByRole('button').first().click(),
	},
	overlay: {
		open: async (page) => {
			await page.keyboard.press('Control+Shift+p');
			await page.getByTestId('performance-overlay').waitFor();
		},
		leave: (page) => page.keyboard.press('Control+Shift+p'),
	},
	'tab-menu': {
		open: (page) => page.getByTestId('tab').first().click({ button: 'right' }),
		leave: close,
	},
	models: {
		open: (page) => page.keyboard.press('Control+Shift+m'),
		leave: (page) => page.keyboard.press('Control+Shift+m'),
	},
	...Object.fromEntries(
		['appearance', 'newChats', 'model', 'servers', 'localServer', 'performance', 'data', 'help'].map(
			(name) => [
				`settings-${name}`,
				{
					open: async (page: Page) => {
						if (!(await page.getByTestId('settings-view').isVisible()))
							await page.keyboard.press('Control+,');
						await page.getByTestId(`settings-${name}`).click();
					},
				},
			],
		),
	),
};

/** Controls and texts that stick out of the window, or whose words do not fit into them. */
function cutOff(page: Page): Promise<string[]> {
	return page.evaluate(() => {
		const found: string[] = [];
		const root = document.documentElement;
		if (root.scrollWidth > root.clientWidth) found.push(`the window is ${root.scrollWidth} px wide`);
		const scrolls = (element: Element | null): boolean => {
			for (let at = element; at; at = at.parentElement) {
				const { overflowX, overflowY } = getComputedStyle(at);
				if (/auto|scroll/.test(`${overflowX} ${overflowY}`)) return true;
			}
			return false;
		};
		for (const control of document.querySelectorAll<HTMLElement>(
			'button, input, select, textarea, [role=tab]',
		)) {
			if (!control.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
			const box = control.getBoundingClientRect();
			if (box.width < 2 || box.height < 2) continue;
			const name =
				`${control.dataset['testid'] ?? control.getAttribute('aria-label') ?? control.textContent}`.trim();
			const isOut = box.left < -1 || box.right > innerWidth + 1;
			if (isOut && !scrolls(control.parentElement)) found.push(`"${name}" is outside the window`);
			const isShortened = getComputedStyle(control).textOverflow === 'ellipsis';
			if (
				control instanceof HTMLButtonElement &&
				!isShortened &&
				control.scrollWidth > control.clientWidth + 2
			)
				found.push(`"${name}" is cut off`);
		}
		return found;
	});
}

it.each(Object.entries(windows))(
	'every screen is whole and accessible: %s',
	async (name, options) => {
		mkdirSync(`${pictures}/screens`, { recursive: true });
		const page = await openApp('fourTabs', options);
		await page.getByTestId('composer').waitFor();
		const problems: Record<string, unknown> = {};
		for (const [screen, { open, leave }] of Object.entries(screens)) {
			await open(page);
			await page.waitForTimeout(250);
			await page.screenshot({ path: `${pictures}/screens/${screen}-${name}.png` });
			const [findings, cut] = [await seriousFindings(page), await cutOff(page)];
			if (findings.length > 0 || cut.length > 0) problems[screen] = { findings, cut };
			await leave?.(page);
		}
		expect(problems).toEqual({});
	},
	120_000,
);
