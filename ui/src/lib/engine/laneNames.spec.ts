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
		'Tab 1',
		'Tab 2 · 1',
		'Local server · 1',
		'Tab 2 · 2',
		'Local server · 2',
		'Benchmark',
	]);
});

it('takes no title for a name that every object has', () => {
	expect(laneNames([rowOf({ conversationId: 'constructor' })], titleOf)).toEqual(['Tab constructor']);
});
