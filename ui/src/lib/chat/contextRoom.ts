import { count } from '../format';
import { t } from '../i18n/language.svelte';

/** What a message has to fit into. */
export interface RoomFacts {
	/** The model's window; 0 while no model says. */
	contextTokens: number;
	/** Taken by the conversation so far. */
	usedTokens: number;
	attachedTokens: number;
	/** Of what is typed. */
	textTokens: number;
}

export interface Room {
	/** Left for the message and its answer. */
	freeTokens: number;
	neededTokens: number;
	isOver: boolean;
}

/** Tokens that the template adds round a message, and an answer of a few words. */
const marginTokens = 32;

/** `null` while the window of the model is not known. */
export function roomOf({ contextTokens, usedTokens, attachedTokens, textTokens }: RoomFacts): Room | null {
	if (contextTokens <= 0) return null;
	const freeTokens = Math.max(0, contextTokens - usedTokens);
	const neededTokens = attachedTokens + textTokens + marginTokens;
	return { freeTokens, neededTokens, isOver: neededTokens > freeTokens };
}

/** The limit and how much of it is used, in a sentence; with the way out if it is too much. */
export function roomWords({ freeTokens, neededTokens, isOver }: Room, contextTokens: number): string {
	const figures = { needed: count(neededTokens), free: count(freeTokens), window: count(contextTokens) };
	return isOver ? t('attachments:roomOver', figures) : t('attachments:room', figures);
}
