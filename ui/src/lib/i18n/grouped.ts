/** Digits in groups of three, with narrow no-break spaces: read the same in every language. */
export function grouped(value: number): string {
	return value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}
