import { expect, test } from 'vitest';
import { openApp, pictures, send, useBrowser } from './app';
import { seriousFindings } from './axe';

useBrowser();

test('search finds words in titles and messages, and opens the conversation at the message', async () => {
	const page = await openApp('fourTabs');
	await page.getByTestId('tab').nth(1).click();
	await send(page, 'Where is the lighthouse?');
	await page.getByTestId('receipt').waitFor();
	await send(page, 'Explain it at length.');
	await page.getByTestId('receipt').nth(1).waitFor();
	await page.getByTestId('tab').nth(0).click();

	await page.getByTestId('toggle-sidebar').click();
	await page.keyboard.press('Control+f');
	const field = page.getByTestId('search');
	await expect.poll(() => field.evaluate((input) => input === document.activeElement)).toBe(true);
	await page.keyboard.type('LIGHTH');
	await page.getByTestId('search-hit').waitFor();
	expect(await page.getByTestId('search-hit').locator('mark').allTextContents()).toEqual(['lighth']);
	expect(await page.getByTestId('search-said').textContent()).toBe('One conversation was found.');
	expect(await seriousFindings(page), 'in the light').toEqual([]);
	await page.screenshot({ path: `${pictures}/search.png` });
	await page.keyboard.press('Enter');
	const message = page.locator('[data-testid=message][data-role=user]', { hasText: 'lighthouse' });
	await message.waitFor();
	await expect
		.poll(() =>
			message.evaluate((element) => {
				const { top } = element.getBoundingClientRect();
				const list = element.closest('[role=region]')?.getBoundingClientRect();
				return list !== undefined && top >= list.top && top < list.bottom;
			}),
		)
		.toBe(true);
	expect(await page.getByTestId('tab').nth(1).getAttribute('aria-selected')).toBe('true');

	await field.fill('no such words anywhere');
	await expect
		.poll(() => page.getByTestId('search-said').textContent())
		.toBe('Nothing was found. Fewer or other words may help.');
	await field.press('Escape');
	expect(await field.inputValue()).toBe('');
	expect(await page.getByTestId('conversation').count()).toBe(4);
});

test('axe has no serious finding among results in the dark', async () => {
	const page = await openApp('fourTabs', { colorScheme: 'dark', reducedMotion: 'reduce' });
	await send(page, 'Where is the lighthouse?');
	await page.getByTestId('receipt').waitFor();
	await page.keyboard.press('Control+f');
	await page.keyboard.type('the');
	await page.getByTestId('search-hit').first().waitFor();
	expect(await seriousFindings(page)).toEqual([]);
	await page.screenshot({ path: `${pictures}/search-dark.png` });
});

test('a pinned conversation stands first and stays there after a restart', async () => {
	const page = await openApp('fourTabs');
	const rows = page.getByTestId('conversation');
	const lastId = await rows.nth(3).getAttribute('data-conversation-id');
	await rows.nth(3).hover();
	await rows.nth(3).getByTestId('pin').click();
	await expect.poll(() => rows.first().getAttribute('data-conversation-id')).toBe(lastId);
	expect(await page.locator('[data-testid=sidebar] h3').first().textContent()).toBe('Pinned');
	await page.reload();
	await rows.first().waitFor();
	expect(await rows.first().getAttribute('data-conversation-id')).toBe(lastId);
	await page.screenshot({ path: `${pictures}/pinned.png` });
	await rows.first().hover();
	await rows.first().getByTestId('pin').click();
	await expect.poll(() => page.locator('[data-testid=sidebar] h3').first().textContent()).toBe('Today');
});
