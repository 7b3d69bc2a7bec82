import { expect, it, vi } from 'vitest';
import type { Backend } from '../ipc/backend';
import { settingsOf } from '../testing/samples';
import { stubBackend } from '../testing/stubBackend';
import { ChatTab } from './chatTab.svelte';

async function openTab(backend: Backend): Promise<ChatTab> {
	const { id } = await backend.createConversation();
	const tab = new ChatTab(backend, id, () => {});
	await tab.open();
	return tab;
}

const quick = () => stubBackend({}, { stepMs: 2 });
const untilIdle = (tab: ChatTab) => vi.waitFor(() => expect(tab.isAnswering).toBe(false), 20_000);

async function ask(tab: ChatTab, text: string) {
	tab.draft.write(text);
	await tab.send();
}

it('fills each answer of a fan-out with its own words, and ends once all have', async () => {
	const tab = await openTab(quick());
	const onAnswerEnd = vi.fn();
	tab.onAnswerEnd = onAnswerEnd;
	tab.draft.write('Which?');
	await tab.fanOut(['1', '2', '3'].map((seed) => settingsOf({ seed })));
	expect(tab.draft.text).toBe('');
	expect(tab.compared?.length).toBe(3);
	await untilIdle(tab);
	expect(tab.compared?.map(({ text }) => /^With seed (\d):/.exec(text)?.[1])).toEqual(['1', '2', '3']);
	expect(tab.compared?.map(({ state }) => state)).toEqual(['complete', 'complete', 'complete']);
	expect(tab.messages.map(({ id }) => id)).toContain(tab.compared?.[0]?.id);
	expect(onAnswerEnd.mock.calls).toEqual([[tab.id]]);
});

it('keeps one answer: the others stop and stay as versions', async () => {
	const tab = await openTab(stubBackend({}, { stepMs: 20 }));
	tab.draft.write('Which?');
	await tab.fanOut(['1', '2', '3'].map((seed) => settingsOf({ seed })));
	const second = tab.compared?.[1]?.id ?? '';
	await vi.waitFor(() => expect(tab.compared?.every(({ text }) => text !== '')).toBe(true));
	await tab.keep(second);
	expect(tab.compared).toBeNull();
	expect(tab.messages.at(-1)).toMatchObject({ id: second, state: 'streaming' });
	await vi.waitFor(() => expect(tab.messages.at(-1)?.text.length).toBeGreaterThan(40));
	await tab.compare(second);
	expect(tab.compared?.map(({ state }) => state)).toEqual(['stopped', 'streaming', 'stopped']);
});

it('stops one of several answers and lets the others go on', async () => {
	const tab = await openTab(stubBackend({}, { stepMs: 10 }));
	tab.draft.write('Which?');
	await tab.fanOut(['1', '2'].map((seed) => settingsOf({ seed })));
	await vi.waitFor(() => expect(tab.compared?.[0]?.text).not.toBe(''));
	await tab.stop(tab.compared?.[0]?.id ?? '');
	await vi.waitFor(() => expect(tab.compared?.[0]?.state).toBe('stopped'));
	expect(tab.isAnswering).toBe(true);
	expect(tab.compared?.[1]?.state).toBe('streaming');
});

it('follows all answers of a fan-out after the window was loaded anew', async () => {
	const backend = stubBackend({}, { stepMs: 15 });
	const before = await openTab(backend);
	before.draft.write('Which?');
	await before.fanOut(['1', '2'].map((seed) => settingsOf({ seed })));
	const tab = new ChatTab(backend, before.id, () => {});
	await tab.open();
	expect(tab.isAnswering).toBe(true);
	expect(tab.compared?.length).toBe(2);
	await untilIdle(tab);
	expect(tab.compared?.map(({ state }) => state)).toEqual(['complete', 'complete']);
	expect(tab.compared?.[1]?.text).toContain('With seed 2:');
}, 40_000);

it('edits a question: the edit and its answer take the place of all that followed', async () => {
	const tab = await openTab(quick());
	await ask(tab, 'One?');
	await untilIdle(tab);
	await ask(tab, 'Two?');
	await untilIdle(tab);
	await tab.editQuestion(tab.messages[0]?.id ?? '', 'Another?');
	expect(tab.messages.map(({ role, text }) => (role === 'user' ? text : ''))).toEqual(['Another?', '']);
	expect(tab.messages[0]?.versionIds.length).toBe(2);
	await untilIdle(tab);
	await tab.selectVersion(tab.messages[0]?.versionIds[0] ?? '');
	expect(tab.messages.length).toBe(4);
});

it('lets an answer go on where it ended', async () => {
	const backend = quick();
	const tab = await openTab(backend);
	await tab.writeSettings(settingsOf({ maxTokens: 6 }));
	await ask(tab, 'Go on?');
	await untilIdle(tab);
	const cut = tab.messages.at(-1);
	expect(cut?.finishReason).toBe('maxTokens');
	await tab.continueAnswer(cut?.id ?? '');
	await untilIdle(tab);
	const whole = tab.messages.at(-1);
	expect(whole?.id).toBe(cut?.id);
	expect(whole?.text.startsWith(cut?.text ?? '?')).toBe(true);
	expect(whole?.receipt?.answerTokens).toBe(12);
});

it('branches from a token: the same up to there, another word, and on', async () => {
	const tab = await openTab(quick());
	await tab.writeSettings(settingsOf({ logprobs: 3 }));
	await ask(tab, 'Which word?');
	await untilIdle(tab);
	const answer = tab.messages.at(-1);
	const details = await tab.tokenDetails(answer?.id ?? '');
	const other = details[4]?.alternatives[1];
	await tab.branch(answer?.id ?? '', 4, other?.token ?? 0);
	await untilIdle(tab);
	const start = details.slice(0, 4).map(({ text }) => text);
	const branched = tab.messages.at(-1);
	expect(branched?.text.startsWith([...start, other?.text].join(''))).toBe(true);
	expect(branched?.versionIds).toEqual([answer?.id, branched?.id]);
});

it('keeps a text that could not be fanned out', async () => {
	const tab = await openTab(stubBackend({}, { sendFails: 'diskFull' }));
	tab.draft.write('Keep me');
	await tab.fanOut([settingsOf(), settingsOf()]);
	expect(tab.draft.text).toBe('Keep me');
	expect(tab.problem?.failure.code).toBe('diskFull');
	expect(tab.compared).toBeNull();
});
