import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Draft } from './draft.svelte';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('is saved once, shortly after the last key', async () => {
	const save = vi.fn(() => Promise.resolve());
	const draft = new Draft('', save, () => {});
	for (const text of ['H', 'He', 'Hey']) draft.write(text);
	expect(save).not.toHaveBeenCalled();
	await vi.advanceTimersByTimeAsync(1000);
	expect(save.mock.calls).toEqual([['Hey']]);
});

it('is saved again after a failure, and keeps the text', async () => {
	const save = vi.fn<(text: string) => Promise<void>>(() => Promise.reject(new Error('disk full')));
	const onFailure = vi.fn();
	const draft = new Draft('', save, onFailure);
	draft.write('Hey');
	await vi.advanceTimersByTimeAsync(1000);
	expect(onFailure).toHaveBeenCalledOnce();
	save.mockResolvedValue(undefined);
	await draft.flush();
	expect(draft.text).toBe('Hey');
	expect(save).toHaveBeenCalledTimes(2);
});

it('writes nothing when nothing changed', async () => {
	const save = vi.fn(() => Promise.resolve());
	await new Draft('kept', save, () => {}).flush();
	expect(save).not.toHaveBeenCalled();
});
