// @vitest-environment node
import { expect, it } from 'vitest';
import { downloadOf } from '../testing/samples';
import { newsWords } from './newsWords';
import type { StatusChanges } from './statusChanges';

const problem = { code: 'hubUnreachable' as const, detail: 'connection reset' };
const imported = { importId: 'i1', source: '/x/tiny.gguf', doneBytes: 2, totalBytes: 2, problem: null };
const everything: StatusChanges = {
	isListStale: true,
	loadedModelId: 'a',
	loadFailure: { modelId: 'b', problem },
	done: [downloadOf({ phase: { kind: 'done', modelId: 'c' } })],
	failed: [downloadOf({ phase: { kind: 'failed', problem } })],
	imported: [imported],
	refused: [{ ...imported, problem }],
};
const nameOf = (modelId: string) => `Model ${modelId}`;

it('tells everything to those who look elsewhere, and leads on', () => {
	const news = newsWords(everything, { nameOf, isScreenOpen: false });
	expect(news.map(({ text, leadsTo }) => [text, leadsTo?.label ?? null])).toEqual([
		['Model a is ready.', null],
		['tiny.gguf is imported.', null],
		['owner/model is downloaded.', 'Load now'],
		['Model b was not loaded.', 'Open Models'],
		['tiny.gguf was not imported.', 'Open Models'],
		['The download of owner/model stopped.', 'Open Models'],
	]);
	expect(news.filter(({ tone }) => tone === 'error').map(({ detail }) => detail)).toEqual(
		Array(3).fill('The hub cannot be reached'),
	);
	expect(news[2]?.leadsTo?.modelId).toBe('c');
});

it('leaves out what the open screen shows itself', () => {
	const news = newsWords(everything, { nameOf, isScreenOpen: true });
	expect(news.map(({ text }) => text)).toEqual(['Model a is ready.', 'tiny.gguf is imported.']);
});
