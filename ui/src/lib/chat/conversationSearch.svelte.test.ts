import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { CommandFailure } from '../ipc/backend';
import type { SearchHit } from '../ipc/wire';
import { stubBackend } from '../testing/stubBackend';
import { ConversationSearch } from './conversationSearch.svelte';

const hit = (conversationId: string): SearchHit => ({
	conversationId,
	title: [{ text: 'Title', isMatch: false }],
	messageId: null,
	snippet: [],
	atMs: 0,
});

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('asks once typing has paused, and for nothing when only white space is typed', async () => {
	const searchConversations = vi.fn().mockResolvedValue([hit('1')]);
	const search = new ConversationSearch(stubBackend({ searchConversations }));
	search.type('r');
	search.type('ra');
	await vi.advanceTimersByTimeAsync(200);
	expect(searchConversations.mock.calls).toEqual([['ra']]);
	expect(search.said).toBe('One conversation was found.');
	search.type('  ');
	await vi.advanceTimersByTimeAsync(200);
	expect(searchConversations).toHaveBeenCalledTimes(1);
	expect(search.hits).toBeNull();
});

it('shows the later of two searches, whichever comes back first', async () => {
	const answers: ((hits: SearchHit[]) => void)[] = [];
	const searchConversations = () => new Promise<SearchHit[]>((resolve) => answers.push(resolve));
	const search = new ConversationSearch(stubBackend({ searchConversations }));
	search.type('first');
	const first = search.search();
	search.type('second');
	const second = search.search();
	answers[1]?.([hit('2')]);
	answers[0]?.([hit('1')]);
	await Promise.all([first, second]);
	expect(search.hits).toEqual([hit('2')]);
});

it('a cleared search stays empty when its answer comes', async () => {
	let answer = (_: SearchHit[]) => {};
	const searchConversations = () => new Promise<SearchHit[]>((resolve) => (answer = resolve));
	const search = new ConversationSearch(stubBackend({ searchConversations }));
	search.type('rain');
	const pending = search.search();
	search.clear();
	answer([hit('1')]);
	await pending;
	expect(search.hits).toBeNull();
});

it('steps round through the hits, and says the outcome in words', async () => {
	const searchConversations = vi.fn().mockResolvedValue([hit('1'), hit('2'), hit('3')]);
	const search = new ConversationSearch(stubBackend({ searchConversations }));
	search.type('a');
	await search.search();
	expect(search.said).toBe('3 conversations were found.');
	search.step(-1);
	expect(search.chosen).toBe(2);
	search.step(1);
	expect(search.chosen).toBe(0);
	searchConversations.mockResolvedValue([]);
	await search.search();
	search.step(1);
	expect([search.chosen, search.said]).toEqual([0, 'Nothing was found. Fewer or other words may help.']);
});

it('keeps the failure of a search until one succeeds', async () => {
	const searchConversations = vi.fn().mockRejectedValue(new CommandFailure('historyFailed', 'disk'));
	const search = new ConversationSearch(stubBackend({ searchConversations }));
	search.type('a');
	await search.search();
	expect(search.failure?.code).toBe('historyFailed');
	searchConversations.mockResolvedValue([hit('1')]);
	await search.search();
	expect([search.failure, search.hits?.length]).toEqual([null, 1]);
});
