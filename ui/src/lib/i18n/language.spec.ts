import { describe, expect, it } from 'vitest';
import { bestLanguage, setLanguage, t } from './language.svelte';

describe('bestLanguage', () => {
	it.each([
		['de', [], 'de'],
		['de-AT', [], 'de'],
		[null, ['fr-CA', 'de'], 'de'],
		[null, ['zh-CN'], 'zh-Hans'],
		[null, ['zh-TW', 'de-DE'], 'de'],
		[null, ['C'], 'en'],
		['xx', ['de'], 'en'],
	])('wish %s, system %s: %s', (wish, system, expected) => {
		expect(bestLanguage(wish, system)).toBe(expected);
	});
});

it('gives words in the language that was set', () => {
	setLanguage('de');
	expect(t('app:languageName')).toBe('Deutsch');
	setLanguage('en');
	expect(t('app:languageName')).toBe('English');
});
