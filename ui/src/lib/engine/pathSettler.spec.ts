// @vitest-environment node
import { expect, it } from 'vitest';
import type { GatePath } from '../ipc/wire';
import { settle, type Settled } from './pathSettler';

const fused: GatePath = { path: 'fused', reasons: [], causedByConversationId: null, sinceStep: 1 };
const perRow: GatePath = { ...fused, path: 'perRow', reasons: ['structuredMask'] };

function shownAfter(history: [GatePath, number][]): GatePath | undefined {
	let settled: Settled | null = null;
	for (const [path, atMs] of history) settled = settle(settled, path, atMs);
	return settled?.shown;
}

it('shows the first path at once, and another one when it has lasted', () => {
	expect(shownAfter([[perRow, 0]])).toEqual(perRow);
	const flip: [GatePath, number][] = [
		[fused, 0],
		[perRow, 250],
		[perRow, 500],
	];
	expect(shownAfter(flip)).toEqual(fused);
	expect(shownAfter([...flip, [perRow, 750]])).toEqual(perRow);
});

it('never shows a path that flips back', () => {
	const flicker: [GatePath, number][] = [];
	for (let atMs = 0; atMs < 5000; atMs += 250) flicker.push([atMs % 500 === 0 ? fused : perRow, atMs]);
	expect(shownAfter(flicker)).toEqual(fused);
});

it('shows the latest step of an unchanged path', () => {
	expect(
		shownAfter([
			[fused, 0],
			[{ ...fused, sinceStep: 9 }, 100],
		])?.sinceStep,
	).toBe(9);
});
