import { wordsFor } from '../i18n/language.svelte';

/** Text sizes in percent, smallest first: the steps that keys take. */
export const textSizes = [90, 100, 110, 120, 130, 140, 150] as const;
export const usualTextSize = 100;

/** The sizes that have a name. */
export const namedTextSizes = ['90', '100', '120', '150'] as const;

export const textSizeWords = wordsFor<(typeof namedTextSizes)[number]>({
	90: 'settings:textSmall',
	100: 'settings:textMedium',
	120: 'settings:textLarge',
	150: 'settings:textLargest',
});

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
