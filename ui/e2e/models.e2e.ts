import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { openApp, send, sendInFourTabs, useBrowser } from './app';
import { seriousFindings } from './axe';

useBrowser();

const row = (page: Page, name: string) => page.getByTestId('model').filter({ hasText: name });
const chip = async (page: Page) => (await page.getByTestId('model-chip').innerText()).trim();
const lastAnswer = (page: Page) => page.locator('[data-testid=message][data-role=assistant]').last();

async function openModels(page: Page) {
	await page.getByTestId('open-models').click();
	await page.getByTestId('models').waitFor();
}

async function find(page: Page, query: string) {
	await page.getByTestId('section-more').click();
	await page.getByTestId('hub-search').fill(query);
	await page.getByTestId('remote-models').waitFor();
}

/** Loads a model whose verdict is that it fits. */
async function load(page: Page, name: string) {
	await row(page, name).getByTestId('open-fit').click();
	await page.getByTestId('start-load').click();
}

async function download(page: Page, repo: string) {
	await page.locator(`[data-testid=remote-model][data-repo="${repo}"] > button`).click();
	await page.getByTestId('start-download').click();
	await page.getByTestId('download').waitFor();
}

const small = 'mlx-community/Qwen3-0.6B-4bit';

test('a model is switched while four tabs answer: the old one goes on until the new one is ready', async () => {
	const page = await openApp('switching');
	await sendInFourTabs(page);
	await openModels(page);
	await row(page, 'tiny-gemma').getByTestId('open-fit').click();
	expect(await page.getByTestId('answers-end').textContent()).toContain(
		'They end when the new model is ready',
	);
	await page.getByTestId('start-load').click();
	await page.getByTestId('load-strip').waitFor();
	await page.getByTestId('tab').nth(0).click();
	const text = async () => (await lastAnswer(page).getByTestId('answer-text').textContent()) ?? '';
	const before = await text();
	await expect.poll(text).not.toBe(before);
	expect(await chip(page)).toContain('loading');
	expect(await lastAnswer(page).getAttribute('data-state')).toBe('streaming');
	await page.getByTestId('answer-failure').waitFor();
	expect(await page.getByTestId('answer-failure').textContent()).toContain('Another model took the place');
	expect((await text()).length, 'what was written is kept').toBeGreaterThanOrEqual(before.length);
	await expect.poll(() => chip(page)).toBe('tiny-gemma');
	await page.getByTestId('answer-failure').getByText('Try again').click();
	await expect.poll(() => lastAnswer(page).getAttribute('data-state')).toBe('streaming');
});

test('a load that fails says why and leaves the old model answering', async () => {
	const page = await openApp('loadFails');
	await openModels(page);
	await load(page, 'tiny-gemma');
	await page.getByTestId('load-failure').waitFor();
	const words = await page.getByTestId('load-failure').textContent();
	expect(words).toContain('tiny-gemma was not loaded');
	expect(words).toContain('SmolLM2-135M-Instruct still runs');
	expect(words).toContain('up_proj.scales is missing');
	expect(await row(page, 'SmolLM2').getAttribute('data-state')).toBe('loaded');
	await page.getByTestId('load-failure').getByText('Try again').click();
	await page.getByTestId('fit-panel').waitFor();
	await page.getByTestId('tab').nth(0).click();
	await send(page, 'Are you still there?');
	await page.getByTestId('receipt').waitFor();
});

test('a load is cancelled, and the old model stays', async () => {
	const page = await openApp('slowLoad');
	await openModels(page);
	await load(page, 'tiny-gemma');
	await page.locator('[data-testid=load-progress][aria-valuenow="10"]').waitFor();
	await page.getByTestId('cancel-load').click();
	await expect.poll(() => page.getByTestId('load-strip').count()).toBe(0);
	expect(await chip(page)).toBe('SmolLM2-135M-Instruct');
	expect(await page.getByTestId('load-failure').count()).toBe(0);
});

test('the context that fits is offered, and a model that does not fit is loaded only after a warning', async () => {
	const page = await openApp('models');
	await openModels(page);
	await row(page, 'Qwen3-4B').getByTestId('open-fit').click();
	const slider = page.getByTestId('context-slider');
	await expect.poll(() => slider.getAttribute('aria-valuetext')).toBe('4\u202f096 tokens');
	await slider.focus();
	await page.keyboard.press('ArrowRight');
	await expect.poll(() => page.getByTestId('fit-panel').getAttribute('data-verdict')).toBe('tight');
	await page.keyboard.press('ArrowLeft');
	await expect.poll(() => page.getByTestId('fit-panel').getAttribute('data-verdict')).toBe('fits');
	await page.keyboard.press('End');
	await expect.poll(() => page.getByTestId('fit-panel').getAttribute('data-verdict')).toBe('tooLarge');
	expect(await page.getByTestId('verdict').textContent()).toContain(
		'With a context of 8\u202f192 tokens it would fit',
	);
	expect(await page.getByTestId('start-load').count()).toBe(0);
	await page.getByTestId('load-anyway').click();
	expect(await page.getByRole('alertdialog').textContent()).toContain('There is not enough memory');
	await page.getByTestId('confirm-load').click();
	await expect.poll(() => row(page, 'Qwen3-4B').getAttribute('data-state')).toBe('loaded');
});

test('unloading says what came back; the composer keeps the draft and leads to the models', async () => {
	const page = await openApp('models');
	await page.getByTestId('composer').fill('Half a thought');
	await openModels(page);
	await row(page, 'SmolLM2').getByTestId('unload').click();
	expect(await page.getByTestId('notice').first().textContent()).toContain('MiB of memory came back');
	await page.getByTestId('tab').nth(0).click();
	expect(await page.getByTestId('composer-blocked').textContent()).toContain('No model is loaded');
	await page.getByTestId('composer').press('Enter');
	expect(await page.getByTestId('composer').inputValue()).toBe('Half a thought');
	await page.getByTestId('composer-way-out').click();
	await load(page, 'SmolLM2');
	await expect.poll(() => row(page, 'SmolLM2').getAttribute('data-state')).toBe('loaded');
	await page.getByTestId('tab').nth(0).click();
	await page.getByTestId('send').click();
	await page.getByTestId('receipt').waitFor();
});

test('a computer without models says so and gets its first one from the hub', async () => {
	const page = await openApp('noModel');
	await page.getByTestId('engine-failed').getByText('Open Models').click();
	await page.getByTestId('no-models').waitFor();
	await find(page, 'qwen3 0.6b');
	await download(page, small);
	await page.getByTestId('load-now').click();
	await page.getByTestId('start-load').click();
	await expect.poll(() => chip(page)).toBe('Qwen3-0.6B-4bit');
	await page.getByTestId('tab').nth(0).click();
	await send(page, 'Hello');
	await page.getByTestId('receipt').waitFor();
});

test('models that cannot be used say why; deleting names the folder and the size', async () => {
	const page = await openApp('models');
	await openModels(page);
	expect(await row(page, 'mamba').getByTestId('model-problem').textContent()).toContain('model_type "mamba"');
	expect(await row(page, 'Phi-3').getByTestId('model-problem').textContent()).toContain('model.safetensors');
	expect(await row(page, 'mamba').getByTestId('open-fit').count()).toBe(0);
	await row(page, 'Phi-3').getByTestId('delete-model').click();
	const words = await page.getByTestId('delete-panel').textContent();
	expect(words).toContain('1.1 GiB are deleted for good');
	expect(words).toContain('/braid/models/Phi-3-mini-4k-instruct-4bit');
	await page.getByTestId('confirm-delete').click();
	await expect.poll(() => row(page, 'Phi-3').count()).toBe(0);
	await load(page, 'tiny-gemma');
	await expect.poll(() => row(page, 'tiny-gemma').getAttribute('data-state')).toBe('loaded');
	await row(page, 'tiny-gemma').getByTestId('delete-model').click();
	expect(await page.getByTestId('delete-panel').textContent()).toContain('is unloaded first');
	await page.getByTestId('confirm-delete').click();
	await expect.poll(() => row(page, 'tiny-gemma').count()).toBe(0);
	await row(page, 'Llama-3.3').getByTestId('delete-model').click();
	expect(await page.getByTestId('delete-panel').textContent()).toContain('Its files stay where they are');
	expect(await row(page, 'SmolLM2').getByTestId('delete-model').count(), 'what came with Braid stays').toBe(
		0,
	);
});

test('a search leads through details and a download to a loaded model', async () => {
	const page = await openApp('models');
	await openModels(page);
	await find(page, 'mlx');
	expect(await page.getByTestId('remote-model').count()).toBe(3);
	await page.getByTestId('hub-more').click();
	await expect.poll(() => page.getByTestId('remote-model').count()).toBe(5);
	await page.locator('[data-repo="mlx-community/whisper-large-v3-mlx"] > button').click();
	await expect.poll(() => page.getByTestId('remote-problem').textContent()).toContain('whisper');
	await page.locator(`[data-repo="${small}"] > button`).click();
	const details = page.getByTestId('remote-details');
	await expect.poll(() => details.textContent()).toContain('Braid runs this architecture');
	expect(await details.textContent()).toMatch(/apache-2\.0.*346 MiB; 85\.0 GiB of disk are free/s);
	await page.getByTestId('start-download').click();
	await page.getByTestId('downloads-badge').waitFor();
	await page.getByTestId('load-now').click();
	await page.getByTestId('start-load').click();
	await expect.poll(() => row(page, 'Qwen3-0.6B').getAttribute('data-state')).toBe('loaded');
	await page.getByTestId('dismiss-download').click();
	await expect.poll(() => page.getByTestId('downloads').count()).toBe(0);
});

test('a download pauses, resumes where it was, and leaves nothing when it is cancelled', async () => {
	const page = await openApp('slowDownload');
	await openModels(page);
	await find(page, 'qwen3');
	await download(page, small);
	const progress = async () =>
		Number(await page.getByTestId('download-progress').getAttribute('aria-valuenow'));
	await expect
		.poll(() => page.getByTestId('download-state').textContent())
		.toMatch(/MiB\/s · \d+ s left.*file \d of 5/);
	await expect.poll(progress).toBeGreaterThan(0);
	await page.getByTestId('pause-download').click();
	await expect.poll(() => page.getByTestId('download').getAttribute('data-phase')).toBe('paused');
	const paused = await progress();
	expect(await page.getByTestId('download-state').textContent()).toContain('Paused');
	await page.waitForTimeout(1200);
	expect(await progress(), 'nothing arrives while it stands').toBe(paused);
	await page.getByTestId('resume-download').click();
	await expect.poll(progress).toBeGreaterThan(paused);
	await page.getByTestId('cancel-download').click();
	await expect.poll(() => page.getByTestId('download').count()).toBe(0);
	expect(await page.getByTestId('downloads-badge').count()).toBe(0);
});

test('a download that fails says why, is told in the chat, and can be tried again', async () => {
	const page = await openApp('downloadFails');
	await openModels(page);
	await find(page, 'qwen3 0.6b');
	await download(page, small);
	await page.getByTestId('tab').nth(0).click();
	const notice = page.getByTestId('notice').filter({ hasText: 'stopped' });
	await notice.waitFor();
	expect(await notice.textContent()).toContain('The hub cannot be reached');
	await notice.getByText('Open Models').click();
	expect(await page.getByTestId('download-failure').textContent()).toContain('connection reset by peer');
	await page.getByTestId('resume-download').click();
	await page.getByTestId('load-now').waitFor();
});

test('without a connection the search says so, and the rest of the screen works', async () => {
	const page = await openApp('hubOffline');
	await openModels(page);
	await page.getByTestId('section-more').click();
	await page.getByTestId('hub-search').fill('qwen');
	await page.getByTestId('hub-failure').waitFor();
	expect(await page.getByTestId('hub-failure').textContent()).toContain('The hub cannot be reached');
	await page.getByTestId('section-here').click();
	await load(page, 'tiny-gemma');
	await expect.poll(() => row(page, 'tiny-gemma').getAttribute('data-state')).toBe('loaded');
});

test('a gated model explains what it wants, and downloads once a token is set', async () => {
	const page = await openApp('models');
	await openModels(page);
	await find(page, 'gemma');
	const repo = 'mlx-community/gemma-3-27b-it-4bit';
	await page.locator(`[data-repo="${repo}"] > button`).click();
	await page.getByTestId('start-download').click();
	const refusal = () => page.getByTestId('start-failure').textContent();
	await expect.poll(refusal).toContain('does not let you have this model yet');
	expect(await page.getByTestId('remote-details').textContent()).toContain(`https://huggingface.co/${repo}`);
	await page.locator('[data-testid=hub-settings] summary').click();
	await page.getByTestId('hub-token').fill('hf_scripted');
	await page.getByTestId('save-hub').click();
	await page.getByTestId('forget-token').waitFor();
	expect(await page.getByTestId('hub-token').inputValue(), 'a token is never shown again').toBe('');
	await page.getByTestId('start-download').click();
	await page.getByTestId('download').waitFor();
});

test('a folder is copied or used where it is, and a refusal names what is at fault', async () => {
	const page = await openApp('models');
	await openModels(page);
	await page.getByTestId('import-folder').click();
	await page.getByTestId('import-reference').click();
	await row(page, 'OLMo-2').waitFor();
	expect(await row(page, 'OLMo-2').textContent()).toContain('used where it lies');
	const refused = await openApp('importRefused');
	await openModels(refused);
	await refused.getByTestId('import-gguf').click();
	await refused.getByTestId('import-failure').waitFor();
	const words = await refused.getByTestId('import-failure').textContent();
	expect(words).toContain('tinyllama-1.1b-chat.Q8_0.gguf was not imported');
	expect(words).toContain('This cannot be imported');
	expect(words).toContain('blk.0.attn_q.weight is stored as Q4_K');
	await refused.getByTestId('import-failure').getByText('Dismiss').click();
	await expect.poll(() => refused.getByTestId('import-failure').count()).toBe(0);
});

test('an import shows how far it is and can be cancelled', async () => {
	const page = await openApp('slowDownload');
	await openModels(page);
	await page.getByTestId('import-gguf').click();
	await expect.poll(() => page.getByTestId('import').textContent()).toContain('of 1.2 GiB');
	await page.getByTestId('cancel-import').click();
	await expect.poll(() => page.getByTestId('import').count()).toBe(0);
	expect(await row(page, 'tinyllama').count()).toBe(0);
});

test('everything works by keyboard: menu, load, context, cancel', async () => {
	const page = await openApp('models');
	await page.getByTestId('model-chip').focus();
	await page.keyboard.press('Enter');
	const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim() ?? '');
	await expect.poll(focused).toContain('SmolLM2');
	await page.keyboard.press('Escape');
	await expect.poll(() => page.getByTestId('model-menu').count()).toBe(0);
	await expect.poll(focused, { message: 'the focus is back on the chip' }).toContain('SmolLM2-135M-Instruct');
	await page.keyboard.press('Enter');
	for (let i = 0; i < 3; i++) await page.keyboard.press('ArrowDown');
	await expect.poll(focused).toContain('tiny-gemma');
	await page.keyboard.press('Enter');
	await expect.poll(() => chip(page)).toBe('tiny-gemma');
	await page.keyboard.press('Control+Shift+M');
	await page.getByTestId('models').waitFor();
	await row(page, 'SmolLM2').getByTestId('open-fit').focus();
	await page.keyboard.press('Enter');
	await expect.poll(focused).toBe('Load SmolLM2-135M-Instruct');
	await page.keyboard.press('Escape');
	await expect.poll(() => page.getByTestId('fit-panel').count()).toBe(0);
	expect(await page.getByTestId('models-view').count(), 'Escape closes the panel first').toBe(1);
	await expect.poll(focused, { message: 'the focus is back on the row' }).toBe('Load');
	await page.getByTestId('section-here').focus();
	await page.keyboard.press('ArrowRight');
	await page.getByTestId('hub-search').waitFor();
	expect(await page.getByTestId('section-more').getAttribute('aria-selected')).toBe('true');
	await page.keyboard.press('Escape');
	await page.getByTestId('composer').waitFor();
});

const looks = [
	{ name: 'light', options: { colorScheme: 'light' } },
	{ name: 'dark, 800 px', options: { colorScheme: 'dark', viewport: { width: 800, height: 700 } } },
	// A window of 1280 by 850 at 200 %.
	{ name: 'at 200 %', options: { colorScheme: 'light', viewport: { width: 640, height: 425 } } },
] as const;

for (const { name, options } of looks) {
	test(`axe has no serious finding and nothing is cut off, ${name}`, async () => {
		const page = await openApp('models', { ...options, reducedMotion: 'reduce' });
		const check = async (what: string) => {
			expect(await seriousFindings(page), what).toEqual([]);
			const over = await page
				.getByTestId('models-view')
				.evaluate((view) => view.scrollWidth - view.clientWidth);
			expect(over, `${what}: nothing lies beyond the right edge`).toBeLessThanOrEqual(0);
		};
		await page.getByTestId('model-chip').click();
		await page.getByTestId('model-menu').waitFor();
		expect(await seriousFindings(page), 'with the menu').toEqual([]);
		await page.getByTestId('menu-all').click();
		await row(page, 'Llama-3.3').getByTestId('open-fit').click();
		await page.getByTestId('load-anyway').click();
		await page.getByTestId('import-folder').click();
		await page.getByTestId('import-choice').waitFor();
		await check('with a fit panel and an import');
		await row(page, 'Phi-3').getByTestId('delete-model').click();
		await check('with the question before deleting');
		await find(page, 'mlx');
		await download(page, small);
		await page.locator('[data-testid=hub-settings] summary').click();
		await page.getByTestId('load-now').waitFor();
		await check('with a search, details, a download and the settings');
	});
}
