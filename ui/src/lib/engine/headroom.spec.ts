import { expect, it } from 'vitest';
import type { MemoryStats } from '../ipc/wire';
import { rowOf } from '../testing/samples';
import { memoryParts, roomFor } from './headroom';

const memory: MemoryStats = {
	modelBytes: 400,
	kvCacheBytes: 150,
	snapshotBytes: 30,
	prefillBytes: 20,
	reservedBytes: 100,
	activeBytes: 700,
	peakBytes: 800,
	limitBytes: 1000,
	kvBytesPerToken: 2,
	freeBytes: 300,
};

it('the parts are the whole limit, and the free part is what admission gives', () => {
	const parts = memoryParts(memory);
	expect(parts.map(({ kind, bytes }) => [kind, bytes])).toEqual([
		['model', 400],
		['kvCache', 200],
		['reserved', 100],
		['free', 300],
	]);
	expect(parts.reduce((sum, { percent }) => sum + percent, 0)).toBe(100);
});

it('never shows more free than there is', () => {
	const full = memoryParts({ ...memory, modelBytes: 900, freeBytes: 300 });
	expect(full.find(({ kind }) => kind === 'free')?.bytes).toBe(0);
});

it('counts room in chats as long as the running ones', () => {
	const rows = [rowOf({ kvCacheTokens: 40 }), rowOf({ kvCacheTokens: 60 })];
	expect(roomFor(memory, rows, 2048)).toEqual({ chats: 3, tokens: 50 });
});

it('counts chats that fill the context when none runs', () => {
	expect(roomFor(memory, [], 100)).toEqual({ chats: 1, tokens: 100 });
	expect(roomFor({ ...memory, kvBytesPerToken: 0 }, [], 100)).toBeNull();
	expect(roomFor(memory, [], null)).toBeNull();
});
