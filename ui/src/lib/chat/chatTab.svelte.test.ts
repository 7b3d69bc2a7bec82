import { expect, it, vi } from 'vitest';
import { CommandFailure, type Backend } from '../ipc/backend';
import type { StreamEvent, StreamEventBody } from '../ipc/wire';
import { answerMessage, receiptOf, settingsOf } from '../testing/samples';
import { stubBackend } from '../testing/stubBackend';
import { ChatTab } from './chatTab.svelte';

const text = (delta: string): StreamEventBody => ({
	kind: 'text',
	part: 'answer',
	delta,
	answerTokens: 1,
	thinkingTokens: 0,
});

async function openTab(backend: Backend): Promise<ChatTab> {
	const { id } = await backend.createConversation();
	const tab = new ChatTab(backend, id, () => {});
	await tab.open();
	return tab;
}

it('keeps the message in the composer when it cannot be sent', async () => {
	const failure = new CommandFailure('diskFull', 'no space left');
	const tab = await openTab(stubBackend({ startGeneration: () => Promise.reject(failure) }));
	tab.draft.write('Hello?');
	await tab.send();
	expect(tab.draft.text).toBe('Hello?');
	expect(tab.problem?.failure).toBe(failure);
	expect(tab.isAnswering).toBe(false);
	expect(tab.messages).toEqual([]);
});

it('applies events that arrive before the messages are known to be stored', async () => {
	const backend = stubBackend({
		startGeneration: async ({ requestId }, onEvents) => {
			const events: StreamEvent[] = [
				{ requestId, sequence: 0, body: text('Early') },
				{ requestId, sequence: 1, body: { kind: 'finished', reason: 'endOfTurn', receipt: receiptOf() } },
			];
			onEvents(events);
			return {
				userMessage: { ...answerMessage(), id: '1', role: 'user', text: 'Q' },
				answer: answerMessage(),
			};
		},
	});
	const tab = await openTab(backend);
	tab.draft.write('Q');
	await tab.send();
	await vi.waitFor(() => expect(tab.messages[1]?.text).toBe('Early'));
	expect(tab.messages[1]?.state).toBe('complete');
	expect(tab.draft.text).toBe('');
	expect(tab.isAnswering).toBe(false);
});

it('reads the stored answer again when an event was lost', async () => {
	const backend = stubBackend();
	const openConversation = vi.spyOn(backend, 'openConversation');
	const tab = await openTab(backend);
	backend.startGeneration = async ({ requestId }, onEvents) => {
		onEvents([
			{ requestId, sequence: 0, body: text('a') },
			{ requestId, sequence: 2, body: { kind: 'finished', reason: 'endOfTurn', receipt: receiptOf() } },
		]);
		return { userMessage: { ...answerMessage(), id: '1', role: 'user', text: 'Q' }, answer: answerMessage() };
	};
	tab.draft.write('Q');
	await tab.send();
	await vi.waitFor(() => expect(openConversation).toHaveBeenCalledTimes(2));
});

it('says so when a conversation cannot be opened, and opens it on the second try', async () => {
	const backend = stubBackend();
	const { id } = await backend.createConversation();
	const open = vi
		.spyOn(backend, 'openConversation')
		.mockRejectedValueOnce(new CommandFailure('historyFailed', 'locked'));
	const tab = new ChatTab(backend, id, () => {});
	await tab.open();
	expect(tab.load.kind).toBe('failed');
	await tab.open();
	expect(tab.load.kind).toBe('ready');
	expect(open).toHaveBeenCalledTimes(2);
});

it('tries again only what failed: a setting that could not be saved sends no message', async () => {
	const backend = stubBackend();
	const tab = await openTab(backend);
	const write = vi
		.spyOn(backend, 'writeConversationSettings')
		.mockRejectedValueOnce(new CommandFailure('diskFull', 'no space left'));
	const start = vi.spyOn(backend, 'startGeneration');
	tab.draft.write('Not yet');
	await tab.writeSettings(settingsOf({ temperature: 0 }));
	tab.problem?.retry();
	await vi.waitFor(() => expect(write).toHaveBeenCalledTimes(2));
	expect(start).not.toHaveBeenCalled();
});

it('reveals a message once the conversation is open, in place of another version if need be', async () => {
	const { id } = await stubBackend().createConversation();
	const view = {
		summary: { id, title: '', preview: '', messageCount: 2, updatedAtMs: 0, isPinned: false },
		draft: '',
		settings: settingsOf(),
		draftAttachments: [],
		activeRequests: [],
		scroll: null,
	};
	const selectVersion = vi.fn().mockResolvedValue({ ...view, messages: [answerMessage({ id: '9' })] });
	const openConversation = () => Promise.resolve({ ...view, messages: [answerMessage({ id: '2' })] });
	const tab = new ChatTab(stubBackend({ openConversation, selectVersion }), id, () => {});
	const goTo = vi.spyOn(tab.scroll, 'goTo');
	void tab.open();
	await tab.reveal('2');
	expect(selectVersion).not.toHaveBeenCalled();
	await tab.reveal('9');
	expect(selectVersion.mock.calls).toEqual([[id, '9']]);
	await tab.reveal('gone');
	expect(goTo.mock.calls).toEqual([['2'], ['9']]);
});
