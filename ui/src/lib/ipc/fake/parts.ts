import type { ConversationView } from '../wire';
import type { ScriptedAnswers } from './running';
import type { ScriptedEngine } from './engine';
import type { ScriptedHistory, Stored } from './history';
import type { Scenario } from './scenarios';

/** What the scripted calls share. */
export interface ScriptedParts {
	/** Runs `work` as a call: later, and with its result copied as on the wire. */
	call: <T>(work: () => T) => Promise<T>;
	scenario: Scenario;
	history: ScriptedHistory;
	engine: ScriptedEngine;
	running: ScriptedAnswers;
	/** Throws `conversationNotFound`. */
	conversation: (id: string) => Stored;
	view: (id: string) => ConversationView;
}
