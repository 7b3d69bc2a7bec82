import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { CommandFailure } from '../ipc/backend';
import type { RemoteModel, RemoteModelPage } from '../ipc/wire';
import { stubBackend } from '../testing/stubBackend';
import { HubSearch } from './hubSearch.svelte';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const remote = (repo: string): RemoteModel => ({
	repo,
	downloads: 1,
	likes: 1,
	updatedAt: null,
	isGated: false,
	tags: [],
});

function searching(answer: (query: string, next: string | null) => Promise<RemoteModelPage>) {
	const searchModels = vi.fn(answer);
	return { hub: new HubSearch(stubBackend({ searchModels })), searchModels };
}

it('asks for nothing before something is typed, and once for a word', async () => {
	const { hub, searchModels } = searching(async (query) => ({ models: [remote(query)], next: null }));
	expect(searchModels).not.toHaveBeenCalled();
	for (const typed of ['q', 'qw', 'qwen']) hub.type(typed);
	await vi.advanceTimersByTimeAsync(400);
	expect(searchModels.mock.calls).toEqual([['qwen', null]]);
	expect(hub.results).toEqual([remote('qwen')]);
});

it('clears the results with the words, without asking', async () => {
	const { hub, searchModels } = searching(async (query) => ({ models: [remote(query)], next: null }));
	hub.type('qwen');
	await vi.advanceTimersByTimeAsync(400);
	hub.type('  ');
	await vi.advanceTimersByTimeAsync(400);
	expect(hub.results).toBeNull();
	expect(searchModels).toHaveBeenCalledOnce();
});

it('of two searches the later one counts, whichever comes back first', async () => {
	const waiting: Record<string, (page: RemoteModelPage) => void> = {};
	const { hub } = searching((query) => new Promise((resolve) => (waiting[query] = resolve)));
	hub.query = 'first';
	const first = hub.search();
	hub.query = 'second';
	const second = hub.search();
	waiting['second']?.({ models: [remote('second')], next: null });
	waiting['first']?.({ models: [remote('first')], next: null });
	await Promise.all([first, second]);
	expect(hub.results).toEqual([remote('second')]);
	expect(hub.isSearching).toBe(false);
});

it('adds the next page to the one before', async () => {
	const { hub } = searching(async (_, next) =>
		next === null ? { models: [remote('a')], next: '2' } : { models: [remote('b')], next: null },
	);
	hub.query = 'mlx';
	await hub.search();
	expect(hub.hasMore).toBe(true);
	await hub.more();
	expect(hub.results?.map(({ repo }) => repo)).toEqual(['a', 'b']);
	expect(hub.hasMore).toBe(false);
});

it('keeps what was found when the next page fails', async () => {
	const { hub } = searching(async (_, next) => {
		if (next !== null) throw new CommandFailure('hubBusy', 'wait 20 s');
		return { models: [remote('a')], next: '2' };
	});
	hub.query = 'mlx';
	await hub.search();
	await hub.more();
	expect(hub.failure?.code).toBe('hubBusy');
	expect(hub.results).toEqual([remote('a')]);
});
