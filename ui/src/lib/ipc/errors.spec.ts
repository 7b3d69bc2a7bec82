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

it('offers a restart when the engine is gone, and the models when none can be run', () => {
	expect(wordingOf('engineFailed').wayOut).toBe('restartEngine');
	const withoutModel = [
		'modelMissing',
		'modelUnusable',
		'modelUnsupported',
		'modelTooLarge',
		'modelUnloaded',
	] as const;
	for (const code of withoutModel) expect(wordingOf(code).wayOut).toBe('openModels');
});

it.each(codes)('%s asks for nothing that a person without a terminal cannot do', (code) => {
	expect(wordingOf(code).advice).not.toMatch(/cargo|terminal|command line/i);
});
