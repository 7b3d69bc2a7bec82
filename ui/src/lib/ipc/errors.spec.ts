// @vitest-environment node
import { expect, it } from 'vitest';
import { errorWording, wayOutLabel, wordingOf } from './errors';
import type { ErrorCode } from './wire';

const codes = Object.keys(errorWording) as ErrorCode[];

it.each(codes)('%s has words a person can act on', (code) => {
	const { title, advice, wayOut } = wordingOf(code);
	expect(title).toMatch(/^[A-Z].*[^.]$/);
	expect(advice).toMatch(/^[A-Z].*\.$/);
	expect(`${title} ${advice}`.toLowerCase()).not.toContain(code.toLowerCase());
	if (wayOut) expect(wayOutLabel[wayOut]).not.toBe('');
});

it('says something else for every code', () => {
	expect(new Set(codes.map((code) => wordingOf(code).title)).size).toBe(codes.length);
});

it('offers a restart whenever the engine is gone', () => {
	const codesOfTheEngine = ['engineFailed', 'modelMissing', 'modelUnusable'] as const;
	for (const code of codesOfTheEngine) expect(wordingOf(code).wayOut).toBe('restartEngine');
});
