// @vitest-environment node
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { downloadOf, fitReportOf, modelOf } from '../testing/samples';
import {
	contextSteps,
	dayOf,
	downloadWords,
	factsOf,
	nameOfPath,
	offerWords,
	originWords,
	percent,
	timeLeft,
	verdictWords,
} from './modelWords';

it.each([
	[0, 0, 0],
	[0, 10, 0],
	[42, 100, 42],
	[9_999_999, 10_000_000, 99],
	[10, 10, 100],
	[11, 10, 100],
])('%d of %d is %d %%', (done, total, share) => {
	expect(percent(done, total)).toBe(share);
});

it.each([
	[400, '1 s left'],
	[59_000, '59 s left'],
	[61_000, '2 min left'],
	[3_600_000, '1 h left'],
	[4_800_000, '1 h 20 min left'],
	[259_200_000, '3 days left'],
])('%d ms are said as %s', (leftMs, words) => {
	expect(timeLeft(leftMs)).toBe(words);
});

it('takes the day out of the hub’s date and nothing out of what is no date', () => {
	expect(dayOf('2026-06-12T08:15:00.000Z')).toBe('2026-06-12');
	expect(dayOf('yesterday')).toBe('');
	expect(dayOf(null)).toBe('');
});

it.each([
	['/data/models/tiny', 'tiny'],
	['/data/models/tiny/', 'tiny'],
	['C:\\models\\tiny.gguf', 'tiny.gguf'],
	['/', '/'],
])('the name of %s is %s', (path, name) => {
	expect(nameOfPath(path)).toBe(name);
});

it('lists only the facts that are known', () => {
	expect(factsOf(modelOf())).toEqual(['llama', '4-bit', '1.0 GiB', '8\u202f192 tokens of context']);
	const unknown = modelOf({ architecture: null, quantisation: null, contextTokens: null });
	expect(factsOf(unknown)).toEqual(['1.0 GiB']);
});

it('names the repository of a model from a hub', () => {
	expect(originWords({ kind: 'hub', repo: 'owner/name', commit: 'abc' })).toBe('owner/name');
});

it.each([
	[{}, '256 MiB of 1.0 GiB · 10.0 MiB/s · 2 min left'],
	[{ bytesPerS: 0, leftMs: null }, '256 MiB of 1.0 GiB · waiting for the hub'],
	[{ leftMs: null }, '256 MiB of 1.0 GiB · 10.0 MiB/s'],
	[{ phase: { kind: 'paused' as const } }, 'Paused · 256 MiB of 1.0 GiB'],
	[{ phase: { kind: 'queued' as const } }, 'Waits for the other downloads · 256 MiB of 1.0 GiB'],
	[{ phase: { kind: 'done' as const, modelId: 'a' } }, 'Complete · 1.0 GiB'],
])('a download that is %j says so', (changes, words) => {
	expect(downloadWords(downloadOf(changes))).toBe(words);
});

it.each(['fits', 'tight', 'tooLarge'] as const)('the verdict %s stands on its numbers', (verdict) => {
	const words = verdictWords(fitReportOf({ verdict }));
	expect(words).toContain('5.8 GiB');
	expect(words).toContain('9.0 GiB');
	expect(/does not fit/.test(words)).toBe(verdict === 'tooLarge');
});

it('a GPU with memory of its own is named', () => {
	expect(verdictWords(fitReportOf({ memoryKind: 'discrete' }))).toContain('the GPU’s memory');
});

it('offers a context only where one is', () => {
	expect(offerWords(fitReportOf())).toBeNull();
	expect(offerWords(fitReportOf({ offeredContextTokens: 4096 }))).toBe(
		'With a context of 4\u202f096 tokens it would fit.',
	);
});

it('the steps of contexts rise, end at the model’s own and hold what is offered', () => {
	const tokens = fc.integer({ min: 1, max: 1_048_576 });
	fc.assert(
		fc.property(tokens, tokens, (own, offered) => {
			const steps = contextSteps(own, [offered, null]);
			expect(steps.at(-1)).toBe(own);
			expect([...steps].sort((a, b) => a - b)).toEqual(steps);
			expect(new Set(steps).size).toBe(steps.length);
			expect(steps.includes(offered)).toBe(offered <= own);
		}),
		{ seed: 7 },
	);
});
