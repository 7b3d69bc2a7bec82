import { afterEach, describe, expect, it } from 'vitest';
import { languages, setLanguage } from '../i18n/language.svelte';
import { errorKinds, wayOutLabel, wordingOf } from './errors';
import type { ErrorCode } from './wire';

const codes = Object.keys(errorKinds) as ErrorCode[];

afterEach(() => setLanguage('en'));

describe.each(languages)('in %s', (language) => {
	it.each(codes)('%s has words a person can act on', (code) => {
		setLanguage(language);
		const { title, advice, wayOut } = wordingOf(code);
		expect(title).toMatch(/^[\p{Lu}\p{Lo}].*[^.。]$/u);
		expect(advice).toMatch(/^[\p{Lu}\p{Lo}].*[.。]$/u);
		expect(`${title} ${advice}`.toLowerCase()).not.toContain(code.toLowerCase());
		if (wayOut) expect(wayOutLabel[wayOut]).not.toBe('');
	});

	it('says something else for every code', () => {
		setLanguage(language);
		expect(new Set(codes.map((code) => wordingOf(code).title)).size).toBe(codes.length);
	});
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
