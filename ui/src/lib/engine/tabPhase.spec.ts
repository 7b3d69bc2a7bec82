// @vitest-environment node
import { expect, it } from 'vitest';
import { rowOf } from '../testing/samples';
import { tabPhase } from './tabPhase';

it('takes the stream before the engine’s row, and the row before the last message', () => {
	const row = rowOf({ phase: 'prefilling', prefillDoneTokens: 10, promptTokens: 40 });
	expect(tabPhase({ row, stream: { kind: 'decoding' }, isRunning: true, lastState: 'streaming' }).label).toBe(
		'Answering',
	);
	expect(tabPhase({ row, stream: null, isRunning: true, lastState: 'streaming' }).label).toBe('Reading 25 %');
	expect(tabPhase({ row, stream: null, isRunning: false, lastState: 'stopped' }).label).toBe('Stopped');
});

it('names every phase', () => {
	expect(
		tabPhase({ row: null, stream: { kind: 'queued', ahead: 2 }, isRunning: true, lastState: null }).label,
	).toBe('Queued, 2 ahead');
	expect(
		tabPhase({ row: null, stream: { kind: 'queued', ahead: 0 }, isRunning: true, lastState: null }).label,
	).toBe('Queued, next');
	expect(
		tabPhase({ row: null, stream: { kind: 'thinking' }, isRunning: true, lastState: 'streaming' }).label,
	).toBe('Thinking');
	expect(
		tabPhase({ row: null, stream: { kind: 'starting' }, isRunning: true, lastState: 'streaming' }).label,
	).toBe('Starting');
	expect(tabPhase({ row: null, stream: null, isRunning: false, lastState: 'failed' }).kind).toBe('failed');
	expect(tabPhase({ row: null, stream: null, isRunning: false, lastState: 'interrupted' }).label).toBe(
		'Interrupted',
	);
	expect(tabPhase({ row: null, stream: null, isRunning: false, lastState: 'complete' }).kind).toBe('idle');
});

it('reads an empty prompt as nothing read', () => {
	expect(
		tabPhase({
			row: null,
			stream: { kind: 'prefilling', doneTokens: 0, totalTokens: 0 },
			isRunning: true,
			lastState: null,
		}).progress,
	).toBe(0);
});
