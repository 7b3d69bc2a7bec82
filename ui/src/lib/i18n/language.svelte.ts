import i18next from 'i18next';
import { catalogues, type WordKey } from './catalogue';
import { grouped } from './grouped';

const fallback = 'en';

/** Languages that there are words for, as BCP 47 tags. */
export const languages: readonly string[] = Object.keys(catalogues).sort();

/** A global, not passed by context: pure modules make words too, and there is one window with one language. */
const current = $state({ tag: fallback });

void i18next.init({
	lng: fallback,
	fallbackLng: fallback,
	resources: catalogues,
	defaultNS: 'app',
	// Keys are flat; a dot in one would be a path.
	keySeparator: false,
	interpolation: {
		escapeValue: false,
		alwaysFormat: true,
		format: (value: unknown) => (typeof value === 'number' ? grouped(value) : String(value)),
	},
	initAsync: false,
	showSupportNotice: false,
});

/** The best language for a wish such as `de-AT`, or for what the system says; English if there is none. */
export function bestLanguage(wish: string | null, system: readonly string[]): string {
	for (const tag of wish === null ? system : [wish]) {
		const found = languages.find((language) => matches(language, tag));
		if (found !== undefined) return found;
	}
	return fallback;
}

/** Whether `language` serves who wants `tag`; of Chinese, only the same script. */
function matches(language: string, tag: string): boolean {
	const wanted = tag.toLowerCase().split(/[-_]/);
	const [base] = wanted;
	if (base !== 'zh') return language.toLowerCase() === base;
	const isTraditional = wanted.some((part) => ['hant', 'tw', 'hk', 'mo'].includes(part));
	return language.toLowerCase() === (isTraditional ? 'zh-hant' : 'zh-hans');
}

/** Shows the window's words in another language. */
export function setLanguage(tag: string) {
	void i18next.changeLanguage(tag);
	document.documentElement.lang = tag;
	current.tag = tag;
}

/** The language of the window. */
export function language(): string {
	return current.tag;
}

/**
 * Words for a key, in the window's language: `t('chat:stop')`, `t('chat:files', { count: 2 })`. Reading it in a
 * component or in `$derived` follows the language. A slot that is a number is a count and is written in groups of
 * three digits; pass any other number as text.
 */
export function t(key: WordKey, slots: Record<string, string | number> = {}): string {
	void current.tag;
	return i18next.t(key, slots);
}

/** A table of words that follows the language: each is looked up when it is read. */
export function wordsFor<Name extends string>(keys: Record<Name, WordKey>): Readonly<Record<Name, string>> {
	const table = {} as Record<Name, string>;
	for (const name of Object.keys(keys) as Name[]) {
		Object.defineProperty(table, name, { enumerable: true, get: () => t(keys[name]) });
	}
	return table;
}

/** A language's own name. */
export function nameOf(tag: string): string {
	return catalogues[tag]?.['app']?.['languageName'] ?? tag;
}
