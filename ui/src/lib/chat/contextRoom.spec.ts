import { expect, it } from 'vitest';
import { attachmentWords } from './attachmentWords';
import { roomOf, roomWords } from './contextRoom';

const facts = { contextTokens: 2048, usedTokens: 500, attachedTokens: 900, textTokens: 20 };

it('leaves what the conversation has not taken, and counts what the template adds', () => {
	const room = roomOf(facts);
	expect(room).toMatchObject({ freeTokens: 1548, isOver: false });
	expect(room?.neededTokens).toBeGreaterThan(920);
});

it('is over as soon as no answer could follow', () => {
	expect(roomOf({ ...facts, attachedTokens: 1520 })?.isOver).toBe(true);
	expect(roomOf({ ...facts, usedTokens: 3000 })).toMatchObject({ freeTokens: 0, isOver: true });
});

it('is unknown while no model says how much it reads', () => {
	expect(roomOf({ ...facts, contextTokens: 0 })).toBeNull();
});

it('says the way out only where one is needed', () => {
	const words = (attachedTokens: number) => {
		const room = roomOf({ ...facts, attachedTokens });
		return room && roomWords(room, facts.contextTokens);
	};
	expect(words(100)).not.toContain('Remove');
	expect(words(5000)).toContain('Remove a file');
});

it('tells the size in tokens, and in characters where no model counts', () => {
	const pdf = { id: '1', name: 'a.pdf', kind: 'pdf' as const, chars: 3240, tokens: 810, pages: 7 };
	expect(attachmentWords(pdf)).toBe('7 pages, 810 tokens');
	expect(attachmentWords({ ...pdf, tokens: null, pages: null })).toMatch(/^3.?240 characters$/);
});
