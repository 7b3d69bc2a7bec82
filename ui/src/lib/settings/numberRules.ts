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
	const kind = rule.isWhole ? 'a whole number' : 'a number';
	if (!isNumber || (rule.isWhole && !Number.isInteger(value)) || !rule.holds(value)) {
		const shown = text === '' ? 'empty' : `“${text}”`;
		return { value, error: `${rule.name} must be ${kind}, ${rule.limit}; it is ${shown}.` };
	}
	return { value, error: null };
}

/** Rust keeps settings as 32-bit floats: 0.7 comes back as 0.699999988079071. */
export function decimal(value: number): string {
	return String(Number(value.toPrecision(6)));
}
