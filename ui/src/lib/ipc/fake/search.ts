import type { SearchedText, SearchHit } from '../wire';
import { pathOf, type Stored } from './history';

const leadChars = 32;
const snippetChars = 160;

/** Conversations with every word of `query` in their title or in one message; matching titles first. */
export function searchIn(conversations: readonly Stored[], query: string): SearchHit[] {
	const words = query.toLowerCase().split(/\s+/).filter(Boolean);
	if (words.length === 0) return [];
	const isMatch = (text: string) => words.every((word) => text.toLowerCase().includes(word));
	const hits = conversations.flatMap((stored): (SearchHit & { isTitle: boolean })[] => {
		const { id, title, updatedAtMs } = stored.summary;
		const message = pathOf(stored)
			.reverse()
			.find(({ text, state }) => state !== 'streaming' && isMatch(text));
		if (stored.isDeleted || (!message && !isMatch(title))) return [];
		const hit = {
			conversationId: id,
			title: runsOf(title, words),
			messageId: message?.id ?? null,
			snippet: message ? snippetOf(message.text, words) : [],
			atMs: message?.createdAtMs ?? updatedAtMs,
		};
		return [{ ...hit, isTitle: isMatch(title) }];
	});
	return hits
		.sort((a, b) => Number(b.isTitle) - Number(a.isTitle) || b.atMs - a.atMs)
		.map(({ isTitle: _, ...hit }) => hit);
}

function snippetOf(text: string, words: readonly string[]): SearchedText[] {
	const line = text.split(/\s+/).join(' ');
	const places = words.map((word) => line.toLowerCase().indexOf(word)).filter((at) => at >= 0);
	const from = Math.max(0, Math.min(...places) - leadChars);
	const cut = line.slice(from, from + snippetChars);
	return runsOf(`${from > 0 ? '…' : ''}${cut}${from + snippetChars < line.length ? '…' : ''}`, words);
}

function runsOf(text: string, words: readonly string[]): SearchedText[] {
	const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
	return text
		.split(new RegExp(`(${escaped.join('|')})`, 'gi'))
		.map((run, i) => ({ text: run, isMatch: i % 2 === 1 }))
		.filter((run) => run.text !== '');
}
