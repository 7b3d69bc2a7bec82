import { grouped } from './i18n/grouped';
import { t } from './i18n/language.svelte';
import type { WordKey } from './i18n/catalogue';

/**
 * Numbers and times in words, as the window's language writes them. No `Intl`: WebKit reports the language "C" on some
 * machines and `Intl` throws on it.
 */

const none = '–';

/** A number with so many decimals. */
export function decimals(value: number, digits: number): string {
	return value.toFixed(digits).replace('.', t('units:decimalMark'));
}

/** A share in percent, without decimals unless they are asked for. */
export function percent(value: number, digits = 0): string {
	return t('units:percent', { value: decimals(value, digits) });
}

/** Tokens per second: one decimal below 100. */
export function tokS(value: number | null): string {
	if (value === null) return none;
	return decimals(value, value >= 100 ? 0 : 1);
}

/** A duration: microseconds never, tenths below 10 ms, seconds from 1 s on. */
export function ms(value: number | null): string {
	if (value === null) return none;
	if (value >= 10_000) return `${decimals(value / 1000, 0)} s`;
	if (value >= 1000) return `${decimals(value / 1000, 1)} s`;
	return `${decimals(value, value >= 10 ? 0 : 1)} ms`;
}

/** Binary units, as memory is counted. */
export function bytes(value: number): string {
	const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
	let size = value;
	let unit = 0;
	while (size >= 1024 && unit < units.length - 1) {
		size /= 1024;
		unit += 1;
	}
	return `${decimals(size, unit === 0 || size >= 100 ? 0 : 1)} ${units[unit]}`;
}

/** Digits in groups of three. */
export const count = grouped;

/** "1 token", "2 tokens", as the language counts. */
export function tokens(value: number): string {
	return t('units:tokens', { count: value });
}

/** "1 token", "2 tokens". */
export function plural(value: number, one: string, many = `${one}s`): string {
	return `${count(value)} ${value === 1 ? one : many}`;
}

/** A number that need not be exact: 950, 12.3k, 4.5M. */
export function roundCount(value: number): string {
	for (const scale of t('units:compactScales').split('|')) {
		const [size = '1', unit = ''] = [scale.split(' ')[0], scale.split(' ').slice(1).join(' ')];
		const share = value / Number(size);
		if (share >= 1) return `${decimals(share, share >= 100 ? 0 : 1)}${unit}`;
	}
	return value.toFixed(0);
}

/** Words in quotation marks. */
export function quoted(text: string): string {
	return t('units:quoted', { text });
}

/** Words one after the other. */
export function listed(words: readonly string[]): string {
	return words.join(t('units:listSeparator'));
}

/** How long ago, in the shortest words that are still useful. */
export function ago(thenMs: number, nowMs: number): string {
	const minutes = Math.floor((nowMs - thenMs) / 60_000);
	if (minutes < 1) return t('units:justNow');
	if (minutes < 60) return t('units:minutesAgo', { count: minutes });
	if (minutes < 24 * 60) return t('units:hoursAgo', { count: Math.floor(minutes / 60) });
	const then = new Date(thenMs);
	const year = then.getFullYear();
	const month = t(`units:month${(then.getMonth() + 1) as Month}` satisfies WordKey);
	const words = { day: then.getDate(), month, year: String(year) };
	return year === new Date(nowMs).getFullYear() ? t('units:dayOfYear', words) : t('units:dayAndYear', words);
}

type Month = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12;

/** Midnight before `thenMs`, on this computer's clock. */
export function startOfDay(thenMs: number): number {
	return new Date(thenMs).setHours(0, 0, 0, 0);
}
