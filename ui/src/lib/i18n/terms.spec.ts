// @vitest-environment node
import { expect, it } from 'vitest';
import { catalogues } from './catalogue';

/** What a language does not say, by the glossary and the rules of docs/translating.md. */
const unwanted: Record<string, RegExp[]> = {
	en: [/!(?!=)/, /\.\.\./],
	de: [
		/!/,
		/[^\u00a0]…/,
		/\b[Dd](u|ich|ir|eine?[nmrs]?)\b/,
		/Gespräch/,
		/Fassung/,
		/Tokens/,
		/\bRechner/,
		/[Ss]toppen/,
		/Batchmodus/,
		/\b[Ss]ichern\b/,
	],
	'zh-Hans': [/[!！]/, /……/, /[你您]/, /系统提示(?!词)/, /这台电脑/, /[\p{Script=Han}][,;:?]/u],
};

const all = Object.entries(catalogues).flatMap(([language, namespaces]) =>
	Object.entries(namespaces).map(([namespace, words]) => ({ language, namespace, words })),
);

it.each(all)('$language $namespace keeps to the glossary', ({ language, namespace, words }) => {
	for (const [key, text] of Object.entries(words)) {
		for (const pattern of unwanted[language] ?? []) expect(text, `${namespace}:${key}`).not.toMatch(pattern);
	}
});
