import type { WayOut } from '../ipc/errors';
import type { AttachmentView, MessageView, SeedChoice, TokenDetail } from '../ipc/wire';
import type { ChatTab } from './chatTab.svelte';

/** What can be done with a message. */
export interface MessageActions {
	regenerate(seed: SeedChoice): void;
	/** Shows another version. */
	select(versionId: string): void;
	compare(): void;
	/** Asks a question in other words. */
	edit(text: string): void;
	/** Lets an answer go on. */
	goOn(): void;
	/** Adds a version of an answer that the user wrote. */
	write(text: string): void;
	branch(tokenIndex: number, token: number): void;
	readDetails(): Promise<TokenDetail[]>;
	takeWayOut(wayOut: WayOut): void;
	openAttachment(attachment: AttachmentView): void;
}

export function actionsOf(
	tab: ChatTab,
	messageId: string,
	outside: Pick<MessageActions, 'takeWayOut' | 'openAttachment'>,
): MessageActions {
	return {
		...outside,
		regenerate: (seed) => void tab.regenerate(messageId, seed),
		select: (versionId) => void tab.selectVersion(versionId),
		compare: () => void tab.compare(messageId),
		edit: (text) => void tab.editQuestion(messageId, text),
		goOn: () => void tab.continueAnswer(messageId),
		write: (text) => void tab.writeVersion(messageId, text),
		branch: (tokenIndex, token) => void tab.branch(messageId, tokenIndex, token),
		readDetails: () => tab.tokenDetails(messageId),
	};
}

/** Whether an answer ended before the model was done, with something to go on from. */
export function canGoOn({ role, state, finishReason, text, thinking }: MessageView): boolean {
	if (role !== 'assistant' || (text === '' && thinking === '')) return false;
	return state === 'stopped' || state === 'interrupted' || state === 'failed' || finishReason === 'maxTokens';
}
