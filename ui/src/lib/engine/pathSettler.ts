import type { GatePath } from '../ipc/wire';

/** A path is shown once it has lasted this long: a grammar or a budget can flip it from one step to the next. */
const settleAfterMs = 500;

/** What is shown of a row's path, and what it may become. */
export interface Settled {
	shown: GatePath;
	next: GatePath;
	/** Since when `next` has been the row's path. */
	sinceMs: number;
}

/** Takes note of a row's path as it is now. The first one is shown at once. */
export function settle(before: Settled | null, now: GatePath, nowMs: number): Settled {
	if (before === null || isSame(before.shown, now)) return { shown: now, next: now, sinceMs: nowMs };
	if (!isSame(before.next, now)) return { shown: before.shown, next: now, sinceMs: nowMs };
	const hasLasted = nowMs - before.sinceMs >= settleAfterMs;
	return { shown: hasLasted ? now : before.shown, next: now, sinceMs: before.sinceMs };
}

function isSame(a: GatePath, b: GatePath): boolean {
	return (
		a.path === b.path &&
		a.causedByConversationId === b.causedByConversationId &&
		a.reasons.join() === b.reasons.join()
	);
}
