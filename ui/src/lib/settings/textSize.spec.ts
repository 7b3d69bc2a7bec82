import { expect, it } from 'vitest';
import { applyTextSize, stepTextSize, textSizes } from './textSize';

it('steps go through every size and stop at the ends', () => {
	const walk = (from: number, by: 1 | -1) => textSizes.map(() => (from = stepTextSize(from, by)));
	expect(walk(90, 1)).toEqual([100, 110, 120, 130, 140, 150, 150]);
	expect(walk(150, -1)).toEqual([140, 130, 120, 110, 100, 90, 90]);
	expect([stepTextSize(125, 1), stepTextSize(125, -1)], 'from between two steps').toEqual([130, 120]);
});

it.each([
	[100, '1'],
	[150, '1.5'],
	[4000, '1.5'],
	[0, '0.9'],
])('%i percent scales text by %s', (percent, scale) => {
	applyTextSize(percent);
	expect(document.documentElement.style.getPropertyValue('--text-scale')).toBe(scale);
});
