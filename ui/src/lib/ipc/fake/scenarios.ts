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
	/** How long every call takes. */
	callMs: number;
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
	callMs: 0,
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
	oneSlot: { ...ready, slots: 1, history: 'four' },
	slowCalls: { ...ready, callMs: 2500 },
	breaksDrawing: { ...ready, breaksDrawing: true },
};
