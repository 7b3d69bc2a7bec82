import { mkdirSync } from 'node:fs';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, inject } from 'vitest';

const chromiumPath = process.env['CHROMIUM'] ?? '/usr/bin/chromium';
export const pictures = 'test-results/pictures';

let browser: Browser;
let problems: string[] = [];

/** Starts the browser for a file of tests, and fails any test whose page logged an error or a policy violation. */
export function useBrowser() {
	beforeAll(async () => {
		mkdirSync(pictures, { recursive: true });
		browser = await chromium.launch({ executablePath: chromiumPath, args: ['--no-sandbox'] });
	});
	afterEach(async () => {
		await Promise.all(browser.contexts().map((context) => context.close()));
		const seen = problems;
		problems = [];
		expect(seen, 'the page must log no error').toEqual([]);
	});
	afterAll(() => browser.close());
}

/** The app in a scenario of the scripted backend, drawn and ready. */
export async function openApp(scenario: string, options: BrowserContextOptions = {}): Promise<Page> {
	const context = await browser.newContext({ viewport: { width: 1280, height: 850 }, ...options });
	const page = await context.newPage();
	page.on('pageerror', (error) => problems.push(error.message));
	page.on('console', (message) => {
		if (message.type() === 'error') problems.push(message.text());
	});
	// The app's window does this too (freezePrototype in tauri.conf.json).
	await page.addInitScript(() => void Object.freeze(Object.prototype));
	await page.goto(`${inject('baseUrl')}/?scenario=${scenario}`);
	return page;
}

/** Errors that a test expects: they are taken off the list. */
export function expectProblems(pattern: RegExp) {
	expect(problems.some((problem) => pattern.test(problem))).toBe(true);
	problems = problems.filter((problem) => !pattern.test(problem));
}

/** Types a message into the shown tab and sends it with Enter. */
export async function send(page: Page, text: string) {
	await page.getByTestId('composer').fill(text);
	await page.getByTestId('composer').press('Enter');
	await page.locator('[data-testid=message][data-role=user]', { hasText: text }).waitFor();
}

export const questions = [
	'What is the capital of France?',
	'Explain how a rainbow forms.',
	'Count the words of a text in Rust.',
	'Should I drink tea or coffee?',
];

/** Sends one question in each of the four tabs of the scenario `fourTabs`. */
export async function sendInFourTabs(page: Page) {
	for (const [i, question] of questions.entries()) {
		await page.getByTestId('tab').nth(i).click();
		await send(page, question);
	}
}
