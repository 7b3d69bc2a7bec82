import { render, screen } from '@testing-library/svelte';
import userEvent from '@testing-library/user-event';
import { createRawSnippet } from 'svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import { ConversationSearch } from '../../lib/chat/conversationSearch.svelte';
import type { ConversationSummary, SearchHit } from '../../lib/ipc/wire';
import { stubBackend } from '../../lib/testing/stubBackend';
import ConversationList from './ConversationList.svelte';

const nowMs = new Date(2026, 5, 15, 12).getTime();
const summary = (id: string, isPinned: boolean): ConversationSummary => ({
	id,
	title: `Title ${id}`,
	preview: '',
	messageCount: 2,
	updatedAtMs: nowMs - Number(id) * 1000,
	isPinned,
});
const hits: SearchHit[] = [
	{
		conversationId: '2',
		title: [
			{ text: 'About ', isMatch: false },
			{ text: 'rain', isMatch: true },
		],
		messageId: null,
		snippet: [],
		atMs: nowMs,
	},
	{
		conversationId: '1',
		title: [],
		messageId: '11',
		snippet: [
			{ text: '<b>', isMatch: false },
			{ text: 'Rain', isMatch: true },
			{ text: 'bow', isMatch: false },
		],
		atMs: nowMs,
	},
];
const calls = {
	onopen: vi.fn(),
	onopenhit: vi.fn(),
	onrename: vi.fn(),
	onpin: vi.fn(),
	ondelete: vi.fn(),
	onnew: vi.fn(),
};

function show() {
	const search = new ConversationSearch(stubBackend({ searchConversations: () => Promise.resolve(hits) }));
	render(ConversationList, {
		conversations: [summary('1', false), summary('2', true), summary('3', false)],
		search,
		titleOf: (id: string) => `Title ${id}`,
		activeId: '1',
		answeringIds: new Set<string>(),
		nowMs,
		foot: createRawSnippet(() => ({ render: () => '<p>foot</p>' })),
		...calls,
	});
}

beforeEach(() => {
	vi.clearAllMocks();
	Element.prototype.scrollIntoView = () => {};
});

it('pinned conversations stand first, under their own heading, and only there', async () => {
	show();
	expect(screen.getAllByRole('heading', { level: 3 }).map((heading) => heading.textContent)).toEqual([
		'Pinned',
		'Today',
	]);
	const rows = screen.getAllByTestId('conversation').map((row) => row.dataset['conversationId']);
	expect(rows).toEqual(['2', '1', '3']);
	expect(screen.getByRole('button', { name: 'Pin Title 2', pressed: true })).toBeTruthy();
	await userEvent.click(screen.getByRole('button', { name: 'Pin Title 3', pressed: false }));
	expect(calls.onpin.mock.calls).toEqual([['3']]);
});

it('results take the place of the list; arrows choose, Enter opens, Escape brings the list back', async () => {
	show();
	const field = screen.getByRole('combobox', { name: 'Search conversations' });
	await userEvent.type(field, 'rain');
	const options = await screen.findAllByRole('option');
	expect(screen.queryAllByTestId('conversation')).toEqual([]);
	expect(screen.getByRole('status').textContent).toBe('2 conversations were found.');
	expect(field.getAttribute('aria-activedescendant')).toBe(options[0]?.id);
	await userEvent.keyboard('{ArrowDown}');
	const second = screen.getByRole('option', { selected: true });
	expect(field.getAttribute('aria-activedescendant')).toBe(second.id);
	await userEvent.keyboard('{Enter}');
	expect(calls.onopenhit.mock.calls).toEqual([[hits[1]]]);
	await userEvent.keyboard('{Escape}');
	expect(screen.getAllByTestId('conversation')).toHaveLength(3);
	expect((field as HTMLInputElement).value).toBe('');
});

it('marks what matched as marks, and shows everything else as text', async () => {
	show();
	await userEvent.type(screen.getByRole('combobox'), 'rain');
	const [titled, said] = await screen.findAllByRole('option');
	const marks = (option: HTMLElement | undefined) =>
		[...(option?.querySelectorAll('mark') ?? [])].map((mark) => mark.textContent);
	expect([marks(titled), marks(said)]).toEqual([['rain'], ['Rain']]);
	expect(said?.textContent).toContain('<b>Rainbow');
	expect(said?.textContent).toContain('New conversation');
});

it('Enter right after typing opens what the typed words find', async () => {
	show();
	await userEvent.type(screen.getByRole('combobox'), 'rain{Enter}');
	await vi.waitFor(() => expect(calls.onopenhit.mock.calls).toEqual([[hits[0]]]));
});
