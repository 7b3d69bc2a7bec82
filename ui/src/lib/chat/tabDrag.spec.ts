import { expect, it } from 'vitest';
import { placeUnder } from './tabDrag';

const boxes = [0, 100, 200, 300].map((left) => ({ left, width: 100 }));

it.each([
	[1, 150, 1],
	[1, 240, 1],
	[1, 251, 2],
	[1, 900, 3],
	[1, 51, 1],
	[1, 49, 0],
	[3, -500, 0],
	[0, 349, 2],
	[0, 351, 3],
])('a tab from %i with its middle at %i belongs at %i', (from, middle, place) => {
	expect(placeUnder(boxes, from, middle)).toBe(place);
});
