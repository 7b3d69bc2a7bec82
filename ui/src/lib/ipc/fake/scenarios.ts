import type { ErrorCode } from '../wire';

/** How the scripted backend behaves. Every name is a state of the real app. */
export interface Scenario {
	/** Conversations in the history of a first start. */
	history: 'empty' | 'four' | 'interrupted';
	engine: 'ready' | 'loading' | 'failed';
	stepMs: number;
	/** Slots of the batch; more requests wait. */
	slots: number;
	startFails: ErrorCode | null;
	/** Every message is refused with this code. */
	sendFails: ErrorCode | null;
	/** An answer fails after so many tokens. */
	answerFailsAfter: number | null;
	/** Why it fails then. */
	answerFailsWith: ErrorCode;
	/** How long every call takes. */
	callMs: number;
	/** The engine refuses grammars. */
	refusesGrammars: boolean;
	/** Answers end as structured output that was cut off. */
	isIncomplete: boolean;
	/** Drawing fails: the engine reports a status that the UI cannot draw. */
	breaksDrawing: boolean;
}

const ready: Scenario = {
	history: 'empty',
	engine: 'ready',
	stepMs: 30,
	slots: 8,
	startFails: null,
	sendFails: null,
	answerFailsAfter: null,
	answerFailsWith: 'badLogits',
	callMs: 0,
	refusesGrammars: false,
	isIncomplete: false,
	breaksDrawing: false,
};

export const scenarios: Record<string, Scenario> = {
	fresh: ready,
	fourTabs: { ...ready, history: 'four' },
	interrupted: { ...ready, history: 'interrupted' },
	engineLoading: { ...ready, engine: 'loading' },
	engineFailed: { ...ready, engine: 'failed' },
	startFails: { ...ready, startFails: 'historyTooNew' },
	diskFull: { ...ready, sendFails: 'diskFull' },
	answerFails: { ...ready, answerFailsAfter: 12 },
	answerFault: { ...ready, answerFailsAfter: 12, answerFailsWith: 'engineFault' },
	tooLarge: { ...ready, answerFailsAfter: 0, answerFailsWith: 'tooLarge' },
	grammarRefused: { ...ready, refusesGrammars: true },
	incomplete: { ...ready, isIncomplete: true },
	oneSlot: { ...ready, slots: 1, history: 'four' },
	slowCalls: { ...ready, callMs: 2500 },
	breaksDrawing: { ...ready, breaksDrawing: true },
};
