import { CommandFailure } from '../backend';
import type { ActiveRequest, MessageView, SamplingSettings, StreamEvent, TokenDetail } from '../wire';
import { longScriptOf, scriptOf, type AnswerScript } from './answers';
import type { ScriptedEngine } from './engine';
import { pathOf, type ScriptedHistory, type Stored } from './history';
import type { Scenario } from './scenarios';

type Emit = (events: StreamEvent[]) => void;

/** What an answer is written with. */
export interface ToWrite {
	answer: MessageView;
	requestId: string;
	settings: SamplingSettings;
	/** What it says from here on; its own script if left out. */
	script?: AnswerScript;
	/** Tokens recorded so far, when it goes on. */
	details?: TokenDetail[];
	/** Whether another answer of the same question reads the prompt. */
	sharesPrompt?: boolean;
}

/** Answers that are being written, and how they end up in the history. */
export class ScriptedAnswers {
	#running: (ActiveRequest & { conversationId: string })[] = [];
	#scenario: Scenario;
	#history: ScriptedHistory;
	#engine: ScriptedEngine;

	constructor(scenario: Scenario, history: ScriptedHistory, engine: ScriptedEngine) {
		this.#scenario = scenario;
		this.#history = history;
		this.#engine = engine;
	}

	/** Throws why nothing can be sent now. */
	check(conversationId: string): Stored {
		const { sendFails } = this.#scenario;
		if (sendFails) throw new CommandFailure(sendFails, 'write: no space left (scripted)');
		const { phase } = this.#engine;
		if (phase.kind === 'failed') throw new CommandFailure(phase.code, phase.detail);
		if (phase.kind === 'loading') throw new CommandFailure('engineNotReady', 'loading');
		const stored = this.#history.find(conversationId);
		if (!stored) throw new CommandFailure('conversationNotFound', `conversation ${conversationId}`);
		return stored;
	}

	activeIn(conversationId: string): ActiveRequest[] {
		return this.#running
			.filter((running) => running.conversationId === conversationId)
			.map(({ requestId, answerId }) => ({ requestId, answerId }));
	}

	/** Stops the answers of a conversation, all but one. */
	stopIn(conversationId: string, exceptAnswerId: string | null = null) {
		for (const { requestId, answerId } of this.activeIn(conversationId)) {
			if (answerId !== exceptAnswerId) this.#engine.stop(requestId);
		}
	}

	/** What an answer to the newest question says. */
	scriptOf({ summary, tree }: Stored, settings: SamplingSettings): AnswerScript {
		const { answerCharacters } = this.#scenario;
		const conversation = Number(summary.id);
		const question = tree.findLast(({ role }) => role === 'user')?.text;
		if (answerCharacters === 0) return inPieces(sessionStorage.getItem('braid-scripted-answer') ?? '');
		if (answerCharacters === null) return scriptOf(conversation, settings, question);
		return longScriptOf(conversation * 100 + tree.length, answerCharacters);
	}

	/** The message as far as it is written now. */
	soFar(message: MessageView): MessageView {
		const running = this.#running.find(({ answerId }) => answerId === message.id);
		const written = running && this.#engine.writtenSoFar(running.requestId);
		if (!written) return message;
		return {
			...message,
			text: message.text + written.text,
			thinking: message.thinking + written.thinking,
		};
	}

	/** Writes on at the end of `answer`, which is in the tree already. */
	start(stored: Stored, toWrite: ToWrite, onEvents: Emit) {
		const { answer, requestId, settings, details = [] } = toWrite;
		const { id } = stored.summary;
		this.#running.push({ requestId, conversationId: id, answerId: answer.id });
		const promptTokens = 40 + pathOf(stored).reduce((sum, message) => sum + message.text.length, 0);
		const isLaterTurn = promptTokens > 200;
		const cachedTokens = toWrite.sharesPrompt ? promptTokens - 1 : isLaterTurn ? promptTokens - 60 : 0;
		this.#engine.submit({
			requestId,
			conversationId: id,
			answerId: answer.id,
			settings,
			script: toWrite.script ?? this.scriptOf(stored, settings),
			promptTokens,
			cachedTokens,
			before: {
				answerTokens: answer.receipt?.answerTokens ?? Math.ceil(answer.text.length / 5),
				thinkingTokens: answer.thinkingTokens,
			},
			emit: onEvents,
			onEnd: ({ text, thinking, details: newDetails, reason, receipt, failure }) => {
				this.#running = this.#running.filter((other) => other.requestId !== requestId);
				const state = reason === 'stopped' || reason === 'failed' ? reason : 'complete';
				const { thinkingTokens } = receipt;
				const all = [...details, ...newDetails];
				const whole = { text: answer.text + text, thinking: answer.thinking + thinking };
				receipt.recordedTokens = all.length;
				const ended = { ...whole, thinkingTokens, state, finishReason: reason, receipt } as const;
				stored.tree = stored.tree.map((message) =>
					message.id === answer.id ? { ...message, ...ended, ...(failure && { failure }) } : message,
				);
				if (all.length > 0) stored.details[answer.id] = all;
				this.#history.save();
			},
		});
	}
}

/** A text that a test has laid down, in forty pieces. */
function inPieces(text: string): AnswerScript {
	const length = Math.max(1, Math.ceil(text.length / 40));
	const count = Math.ceil(text.length / length);
	return {
		thinking: [],
		answer: Array.from({ length: count }, (_, i) => text.slice(i * length, (i + 1) * length)),
	};
}

const unwritten = {
	finishReason: null,
	receipt: null,
	thinking: '',
	thinkingTokens: 0,
	versionIds: [],
	attachments: [],
};

export function emptyAnswer(id: string, parentId: string | null): MessageView {
	const shared = { ...unwritten, createdAtMs: Date.now() };
	return { ...shared, id, parentId, role: 'assistant', text: '', state: 'streaming' };
}

export function questionOf(id: string, parentId: string | null, text: string): MessageView {
	const shared = { ...unwritten, createdAtMs: Date.now() };
	return { ...shared, id, parentId, role: 'user', text, state: 'complete' };
}

/** Stores a question after the path that is shown, with `answers` empty answers; the first of them is shown. */
export function addTurn(stored: Stored, text: string, answers: number, nextId: () => string) {
	const question = {
		...questionOf(nextId(), stored.leafId, text),
		attachments: stored.draftAttachments,
	};
	stored.draftAttachments = [];
	const empty = Array.from({ length: answers }, () => emptyAnswer(nextId(), question.id));
	stored.tree = [...stored.tree, question, ...empty];
	stored.leafId = empty[0]?.id ?? question.id;
	noteTurn(stored, text);
	return {
		userMessage: versioned(stored, question),
		answers: empty.map((answer) => versioned(stored, answer)),
	};
}

export function noteTurn(stored: Stored, text: string) {
	stored.summary = {
		...stored.summary,
		title: stored.summary.title || text.slice(0, 48),
		preview: text.slice(0, 80),
		messageCount: stored.tree.length,
		updatedAtMs: Date.now(),
	};
}

/** The message with the ids of every version at its place. */
export function versioned({ tree }: Stored, message: MessageView): MessageView {
	const versionIds = tree.filter((other) => other.parentId === message.parentId).map((other) => other.id);
	return { ...message, versionIds };
}
