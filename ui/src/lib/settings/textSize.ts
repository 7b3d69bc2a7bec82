/** Text sizes in percent, smallest first: the steps that keys take. */
export const textSizes = [90, 100, 110, 120, 130, 140, 150] as const;
export const usualTextSize = 100;

/** The sizes that have a name. */
export const namedTextSizes = [
	{ value: '90', label: 'Small' },
	{ value: '100', label: 'Medium' },
	{ value: '120', label: 'Large' },
	{ value: '150', label: 'Largest' },
] as const;

const smallest = textSizes[0];
const largest = textSizes[textSizes.length - 1] ?? usualTextSize;

/** The next size up or down; at the end, the same. */
export function stepTextSize(percent: number, by: 1 | -1): number {
	if (by === 1) return textSizes.find((size) => size > percent) ?? largest;
	return textSizes.findLast((size) => size < percent) ?? smallest;
}

/** Applies the size to the document: every length that must hold text is a multiple of `--text-scale`. */
export function applyTextSize(percent: number) {
	const scale = Math.min(largest, Math.max(smallest, percent)) / 100;
	document.documentElement.style.setProperty('--text-scale', String(scale));
}
