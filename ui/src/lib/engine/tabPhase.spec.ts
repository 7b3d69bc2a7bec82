import { expect, it } from 'vitest';
import { rowOf } from '../testing/samples';
import { tabPhase } from './tabPhase';

it('takes the stream before the engine’s row, and the row before the last message', () => {
	const row = rowOf({ phase: 'prefilling', prefillDoneTokens: 10, promptTokens: 40 });
	expect(tabPhase(row, { kind: 'decoding' }, true, 'streaming').label).toBe('Answering');
	expect(tabPhase(row, null, true, 'streaming').label).toBe('Reading 25 %');
	expect(tabPhase(row, null, false, 'stopped').label).toBe('Stopped');
});

it('names every phase', () => {
	expect(tabPhase(null, { kind: 'queued', ahead: 2 }, true, null).label).toBe('Queued, 2 ahead');
	expect(tabPhase(null, { kind: 'queued', ahead: 0 }, true, null).label).toBe('Queued, next');
	expect(tabPhase(null, { kind: 'starting' }, true, 'streaming').label).toBe('Starting');
	expect(tabPhase(null, null, false, 'failed').kind).toBe('failed');
	expect(tabPhase(null, null, false, 'interrupted').label).toBe('Interrupted');
	expect(tabPhase(null, null, false, 'complete').kind).toBe('idle');
});

it('reads an empty prompt as nothing read', () => {
	expect(tabPhase(null, { kind: 'prefilling', doneTokens: 0, totalTokens: 0 }, true, null).progress).toBe(0);
});
