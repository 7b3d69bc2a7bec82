import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { stubBackend } from '../testing/stubBackend';
import { Activity, withActivity } from './activity.svelte';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('names a call that takes long, until it is done', async () => {
	const activity = new Activity();
	let finish = () => {};
	const slow = new Promise<void>((resolve) => (finish = resolve));
	const backend = withActivity(stubBackend({ renameConversation: () => slow }), activity);
	const call = backend.renameConversation('1', 'x');
	await vi.advanceTimersByTimeAsync(1000);
	expect(activity.slowest).toBeNull();
	await vi.advanceTimersByTimeAsync(1000);
	expect(activity.slowest?.label).toBe('activity:renameConversation');
	finish();
	await call;
	expect(activity.slowest).toBeNull();
});
