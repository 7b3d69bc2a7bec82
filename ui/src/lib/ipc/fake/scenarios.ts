import type { ErrorCode } from '../wire';

/** How the scripted backend behaves. Every name is a state of the real app. */
export interface Scenario {
	/** Conversations in the history of a first start. */
	history: 'empty' | 'four' | 'interrupted' | 'long';
	/** Whether the history outlives a reload; writing megabytes at every call would be measured with the app. */
	isKept: boolean;
	/** Every answer is a long text of so many characters; with 0 what a test has laid down. */
	answerCharacters: number | null;
	/** Tokens come at their exact rate, several at a time if the timer is late. */
	isExactRate: boolean;
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
	/** Models on the computer: the one that came with the app, one of every kind, or none. */
	models: 'starter' | 'several' | 'none';
	/** How long a load takes. */
	loadMs: number;
	/** Loads fail on the way. */
	loadFails: ErrorCode | null;
	/** The hub cannot be reached. */
	isOffline: boolean;
	/** How long a download takes. */
	downloadMs: number;
	/** Every download fails once on the way, with this code. */
	downloadFails: ErrorCode | null;
	/** Imports are refused with this detail. */
	importRefused: string | null;
	/** Writing a file fails. */
	transferFails: ErrorCode | null;
	/** Rows that no tab asked for: another program's, the benchmark's. */
	hasVisitors: boolean;
	/** The welcome of the first start was not closed yet. */
	isFirstStart: boolean;
}

const ready: Scenario = {
	history: 'empty',
	isKept: true,
	answerCharacters: null,
	isExactRate: false,
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
	models: 'starter',
	loadMs: 600,
	loadFails: null,
	isOffline: false,
	downloadMs: 1500,
	downloadFails: null,
	importRefused: null,
	transferFails: null,
	hasVisitors: false,
	isFirstStart: false,
};

const several: Scenario = { ...ready, history: 'four', models: 'several' };

export const scenarios: Record<string, Scenario> = {
	fresh: ready,
	firstStart: { ...ready, isFirstStart: true },
	fourTabs: { ...ready, history: 'four' },
	visitors: { ...ready, history: 'four', hasVisitors: true },
	transferFails: { ...ready, history: 'four', transferFails: 'transferFailed' },
	interrupted: { ...ready, history: 'interrupted' },
	long: { ...ready, history: 'long', isKept: false },
	hostile: { ...ready, isKept: false, isExactRate: true, stepMs: 8, answerCharacters: 0 },
	load: { ...ready, isKept: false, isExactRate: true, stepMs: 12.5, answerCharacters: 60_000 },
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
	models: several,
	noModel: { ...ready, models: 'none' },
	switching: { ...several, stepMs: 60, loadMs: 2500 },
	slowLoad: { ...several, loadMs: 20_000 },
	loadFails: { ...several, loadFails: 'modelUnusable' },
	hubOffline: { ...several, isOffline: true },
	slowDownload: { ...several, downloadMs: 20_000 },
	downloadFails: { ...several, downloadFails: 'hubUnreachable' },
	importRefused: {
		...several,
		importRefused: 'blk.0.attn_q.weight is stored as Q4_K; Q4_0, Q4_1, Q8_0, F16 and F32 can be read',
	},
};
