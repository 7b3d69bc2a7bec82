import { quoted } from '../format';
import { t } from '../i18n/language.svelte';

/** What a typed number must be. */
export interface NumberRule {
	name: string;
	/** The limit in words. */
	limit: string;
	isWhole: boolean;
	holds(value: number): boolean;
}

/** Reads a typed number; the error names field, limit and value. */
export function checkNumber(typed: string, rule: NumberRule): { value: number; error: string | null } {
	const text = typed.trim();
	const value = Number(text.replace(',', '.'));
	const isNumber = /^[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?$/i.test(text);
	if (!isNumber || (rule.isWhole && !Number.isInteger(value)) || !rule.holds(value)) {
		const words = { name: rule.name, limit: rule.limit, shown: shownValue(text) };
		return {
			value,
			error: rule.isWhole ? t('sampling:mustBeWhole', words) : t('sampling:mustBeNumber', words),
		};
	}
	return { value, error: null };
}

/** What was typed, as an error repeats it. */
export function shownValue(typed: string): string {
	return typed === '' ? t('sampling:empty') : quoted(typed);
}

/** Rust keeps settings as 32-bit floats: 0.7 comes back as 0.699999988079071. */
export function decimal(value: number): string {
	return String(Number(value.toPrecision(6)));
}

/** The same in two decimals at most, as the language writes it. */
export function shortDecimal(value: number): string {
	return String(Number(value.toFixed(2))).replace('.', t('units:decimalMark'));
}
