// @vitest-environment node
import { expect, it } from 'vitest';
import { spokenPhase } from './spokenPhase';

it.each([
	['idle', 'queued', 'Waiting for a place in the batch'],
	['queued', 'prefilling', 'Reading the prompt'],
	['prefilling', 'decoding', 'Answering'],
	['decoding', 'idle', 'The answer is ready'],
	['decoding', 'stopped', 'The answer was stopped'],
	['thinking', 'failed', 'The answer failed'],
	['stopped', 'prefilling', 'Reading the prompt'],
] as const)('from %s to %s: %s', (before, now, words) => {
	expect(spokenPhase(before, now)).toBe(words);
});

it.each([
	['decoding', 'decoding'],
	['idle', 'failed'],
	['idle', 'stopped'],
	['failed', 'idle'],
] as const)('from %s to %s: nothing', (before, now) => {
	expect(spokenPhase(before, now)).toBeNull();
});
