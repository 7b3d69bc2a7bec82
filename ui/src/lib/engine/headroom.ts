import type { MemoryStats, RowStatus } from '../ipc/wire';

/** A part of the memory that the engine may use. */
export interface MemoryPart {
	kind: 'model' | 'kvCache' | 'reserved' | 'free';
	bytes: number;
	/** Of the limit, in percent. */
	percent: number;
}

/** What the engine's memory is used for, in the order in which it is drawn; what is left is free. */
export function memoryParts(memory: MemoryStats): MemoryPart[] {
	const { modelBytes, kvCacheBytes, snapshotBytes, prefillBytes, limitBytes, freeBytes } = memory;
	const kvBytes = kvCacheBytes + snapshotBytes + prefillBytes;
	const free = Math.min(freeBytes, Math.max(0, limitBytes - modelBytes - kvBytes));
	// Reserve and what other work holds: neither given away nor in use by a cache.
	const reserved = Math.max(0, limitBytes - modelBytes - kvBytes - free);
	const parts = [
		['model', modelBytes],
		['kvCache', kvBytes],
		['reserved', reserved],
		['free', free],
	] as const;
	const whole = Math.max(1, limitBytes);
	return parts.map(([kind, bytes]) => ({ kind, bytes, percent: Math.min(100, (100 * bytes) / whole) }));
}

/** How many more chats fit, and how long they are taken to be, in tokens of the KV cache. */
export interface Room {
	chats: number;
	tokens: number;
}

/**
 * Room for more chats: as long as the running ones are on average, or that fill the context if none runs. `null` where
 * nobody knows what a token costs.
 */
export function roomFor(
	memory: MemoryStats,
	rows: readonly RowStatus[],
	contextTokens: number | null,
): Room | null {
	const lengths = rows.map((row) => Math.max(row.kvCacheTokens, row.promptTokens)).filter((n) => n > 0);
	const mean = lengths.reduce((sum, n) => sum + n, 0) / lengths.length;
	const tokens = Math.round(lengths.length > 0 ? mean : (contextTokens ?? 0));
	const bytes = tokens * memory.kvBytesPerToken;
	return bytes > 0 ? { chats: Math.floor(memory.freeBytes / bytes), tokens } : null;
}
