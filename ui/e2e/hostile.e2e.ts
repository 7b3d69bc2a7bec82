import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { hostileMarkup, hostileSizes } from '../src/lib/testing/hostile';
import { openApp, useBrowser } from './app';

useBrowser();

/** Lets the scripted engine answer with `text`, in pieces; returns the longest time without a frame meanwhile. */
async function answerWith(page: Page, text: string): Promise<number> {
	await page.evaluate((answer) => {
		sessionStorage.setItem('braid-scripted-answer', answer);
		const seen = { longestMs: 0, isOn: true };
		Object.assign(window, { braidFrames: seen });
		let last = performance.now();
		const onFrame = (now: number) => {
			seen.longestMs = Math.max(seen.longestMs, now - last);
			last = now;
			if (seen.isOn) requestAnimationFrame(onFrame);
		};
		requestAnimationFrame(onFrame);
	}, text);
	const answers = await page.locator('[data-role=assistant]').count();
	await page.getByTestId('composer').fill('Go on');
	await page.getByTestId('composer').press('Enter');
	await page.waitForFunction(
		(before) => {
			const all = document.querySelectorAll<HTMLElement>('[data-role=assistant]');
			return all.length > before && all[all.length - 1]?.dataset['state'] === 'complete';
		},
		answers,
		{ timeout: 60_000 },
	);
	// What is drawn late belongs to it.
	await page.waitForFunction(() => document.querySelector('.md-plain') === null, null, { timeout: 30_000 });
	return page.evaluate(() => {
		const { braidFrames } = window as unknown as { braidFrames: { longestMs: number; isOn: boolean } };
		braidFrames.isOn = false;
		return braidFrames.longestMs;
	});
}

it('runs, loads and sends nothing of what an answer contains, and lets it be copied as it is', async () => {
	const page = await openApp('hostile', { permissions: ['clipboard-read', 'clipboard-write'] });
	await page.getByTestId('composer').waitFor();
	const requests: string[] = [];
	page.on('request', (request) => requests.push(request.url()));
	page.on('dialog', (dialog) => {
		requests.push(`dialog: ${dialog.message()}`);
		void dialog.dismiss();
	});
	page.on('popup', (popup) => requests.push(`popup: ${popup.url()}`));
	const globals = await page.evaluate(() => Object.keys(window).sort());
	const address = page.url();
	for (const [name, text] of Object.entries(hostileMarkup)) {
		await answerWith(page, text);
		const answer = page.locator('[data-role=assistant]').last();
		for (const control of await answer.locator('a, .md-link').all())
			await control.click({ timeout: 2000 }).catch(() => {});
		await page.keyboard.press('Escape');
		if (name === 'a script') {
			await answer.getByTestId('copy-answer').click();
			expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(text);
		}
	}
	const added = (await page.evaluate(() => Object.keys(window).sort())).filter(
		(key) => !globals.includes(key),
	);
	expect(added.filter((key) => key !== 'braidFrames')).toEqual([]);
	expect(page.url()).toBe(address);
	const foreign = requests.filter((url) => !url.startsWith(new URL(address).origin));
	expect(foreign).toEqual([]);
	expect(await page.locator('iframe, object, embed, form, svg script, [onerror], [onload]').count()).toBe(0);
}, 240_000);

it('keeps drawing frames whatever an answer contains', async () => {
	const slow: Record<string, number> = {};
	let page = await openApp('hostile');
	for (const [i, [name, text]] of Object.entries(hostileSizes).entries()) {
		// A new page now and then: what is measured is one answer, not a conversation of eighty.
		if (i % 10 === 9) {
			await page.context().close();
			page = await openApp('hostile');
		}
		await page.getByTestId('composer').waitFor();
		const longestMs = await answerWith(page, text);
		if (longestMs > 400) slow[name] = Math.round(longestMs);
	}
	// The machine may be busy with much else.
	expect(Math.max(0, ...Object.values(slow))).toBeLessThan(4000);
}, 400_000);
