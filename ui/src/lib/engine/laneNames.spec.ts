import { expect, it } from 'vitest';
import { rowOf } from '../testing/samples';
import { laneNames } from './laneNames';

const titleOf = (id: string) => `Tab ${id}`;
const server = { source: 'server', conversationId: null } as const;

it('names who asked, and numbers what is called alike', () => {
	const rows = [
		rowOf({ conversationId: '1' }),
		rowOf({ conversationId: '2' }),
		rowOf({ ...server }),
		rowOf({ conversationId: '2' }),
		rowOf({ ...server }),
		rowOf({ source: 'benchmark', conversationId: null }),
	];
	expect(laneNames(rows, titleOf)).toEqual([
		{ name: 'Tab 1', number: null },
		{ name: 'Tab 2', number: 1 },
		{ name: 'Local server', number: 1 },
		{ name: 'Tab 2', number: 2 },
		{ name: 'Local server', number: 2 },
		{ name: 'Benchmark', number: null },
	]);
});

it('takes no title for a name that every object has', () => {
	expect(laneNames([rowOf({ conversationId: 'constructor' })], titleOf)).toEqual([
		{ name: 'Tab constructor', number: null },
	]);
});
