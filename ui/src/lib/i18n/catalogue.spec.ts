import { describe, expect, it } from 'vitest';
import { catalogues, english } from './catalogue';

const pluralSuffix = /_(zero|one|two|few|many|other)$/;

/** Keys without their plural forms, which differ between languages. */
function keysOf(words: Record<string, string>): Set<string> {
	return new Set(Object.keys(words).map((key) => key.replace(pluralSuffix, '')));
}

/** What a text leaves open, such as `{{count}}`, and its tags. */
function slotsOf(text: string): string[] {
	return (text.match(/\{\{[^}]+\}\}|<\/?m>/g) ?? []).map((slot) => slot.replace(/\s/g, '')).sort();
}

const others = Object.keys(catalogues).filter((language) => language !== 'en');

describe.each(others)('%s', (language) => {
	const words = catalogues[language] ?? {};

	it('has the namespaces of English and no others', () => {
		expect(Object.keys(words).sort()).toEqual(Object.keys(english).sort());
	});

	it.each(Object.entries<Record<string, string>>(english))('has every word of %s', (namespace, inEnglish) => {
		const translated = words[namespace] ?? {};
		expect([...keysOf(translated)].sort()).toEqual([...keysOf(inEnglish)].sort());
		for (const [key, text] of Object.entries(translated)) expect(text, key).not.toBe('');
	});

	it.each(Object.entries<Record<string, string>>(english))(
		'leaves the same places open in %s',
		(namespace, inEnglish) => {
			for (const [key, text] of Object.entries(words[namespace] ?? {})) {
				const base = key.replace(pluralSuffix, '');
				const source = inEnglish[key] ?? inEnglish[`${base}_other`] ?? '';
				// A plural form for one thing may say "one" in words.
				const isOne = key.endsWith('_one');
				const expected = slotsOf(source).filter((slot) => !isOne || slot !== '{{count}}');
				expect(
					slotsOf(text).filter((slot) => !isOne || slot !== '{{count}}'),
					`${namespace}:${key}`,
				).toEqual(expected);
			}
		},
	);

	it('has the plural forms that its grammar asks for', () => {
		const forms = new Intl.PluralRules(language).resolvedOptions().pluralCategories;
		for (const [namespace, inEnglish] of Object.entries<Record<string, string>>(english)) {
			const plurals = new Set(
				Object.keys(inEnglish)
					.filter((key) => pluralSuffix.test(key))
					.map((key) => key.replace(pluralSuffix, '')),
			);
			for (const base of plurals) {
				for (const form of forms) {
					expect(words[namespace]?.[`${base}_${form}`], `${namespace}:${base}_${form}`).toBeDefined();
				}
			}
		}
	});
});

it('has German and simplified Chinese', () => {
	expect(Object.keys(catalogues).sort()).toEqual(['de', 'en', 'zh-Hans']);
});
