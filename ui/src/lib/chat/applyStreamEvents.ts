import type {
	ErrorCode,
	FinishReason,
	GatePath,
	MessageState,
	MessageView,
	StreamEvent,
	StreamEventBody,
} from '../ipc/wire';

/** Where an answer is in its life, as far as its own stream says. */
export type AnswerPhase =
	| { kind: 'starting' }
	| { kind: 'queued'; ahead: number }
	| { kind: 'prefilling'; doneTokens: number; totalTokens: number }
	| { kind: 'thinking' }
	| { kind: 'decoding' }
	| { kind: 'ended' };

/** An answer being filled by its stream. Replaced, never patched. */
export interface Answer {
	requestId: string;
	message: MessageView;
	phase: AnswerPhase;
	answerTokens: number;
	/** Path of the latest decode step that changed it. */
	gate: GatePath | null;
	failure: { code: ErrorCode; detail: string } | null;
	/** Sequence number that the next event must have. */
	nextSequence: number;
	/** An event was lost: the stored message is right, this one may lack text. */
	hasGap: boolean;
}

export function newAnswer(requestId: string, message: MessageView): Answer {
	return {
		requestId,
		message,
		phase: { kind: 'starting' },
		answerTokens: 0,
		gate: null,
		failure: null,
		nextSequence: 0,
		hasGap: false,
	};
}

const stateAfter: Record<FinishReason, MessageState> = {
	endOfTurn: 'complete',
	stopSequence: 'complete',
	maxTokens: 'complete',
	contextFull: 'complete',
	incomplete: 'complete',
	stopped: 'stopped',
	failed: 'failed',
	interrupted: 'interrupted',
};

/**
 * Applies events in order. How they were split into frames makes no difference.
 *
 * Events of other requests, events seen before and events after the end are dropped; text only ever grows.
 */
export function applyStreamEvents(answer: Answer, events: readonly StreamEvent[]): Answer {
	return events.reduce(applyOne, answer);
}

function applyOne(answer: Answer, event: StreamEvent): Answer {
	if (event.requestId !== answer.requestId || event.sequence < answer.nextSequence) return answer;
	if (answer.phase.kind === 'ended') return answer;
	const hasGap = answer.hasGap || event.sequence > answer.nextSequence;
	return { ...applyBody(answer, event), nextSequence: event.sequence + 1, hasGap };
}

function applyBody(answer: Answer, { body }: StreamEvent): Answer {
	switch (body.kind) {
		case 'queued':
			return { ...answer, phase: { kind: 'queued', ahead: body.ahead } };
		case 'prefilling':
			return {
				...answer,
				phase: { kind: 'prefilling', doneTokens: body.doneTokens, totalTokens: body.totalTokens },
			};
		case 'text':
			return applyText(answer, body);
		case 'path':
			return {
				...answer,
				phase: answer.phase.kind === 'thinking' ? answer.phase : { kind: 'decoding' },
				gate: body.path,
			};
		case 'finished':
			return {
				...answer,
				phase: { kind: 'ended' },
				answerTokens: body.receipt.answerTokens,
				message: {
					...answer.message,
					thinkingTokens: body.receipt.thinkingTokens,
					state: stateAfter[body.reason],
					finishReason: body.reason,
					receipt: body.receipt,
				},
			};
		case 'failed':
			return {
				...answer,
				phase: { kind: 'ended' },
				failure: { code: body.code, detail: body.detail },
				message: { ...answer.message, state: 'failed', finishReason: 'failed', receipt: body.receipt },
			};
	}
}

function applyText(answer: Answer, body: Extract<StreamEventBody, { kind: 'text' }>): Answer {
	const { message } = answer;
	const isThinking = body.part === 'thinking';
	return {
		...answer,
		phase: { kind: isThinking ? 'thinking' : 'decoding' },
		answerTokens: body.answerTokens,
		message: {
			...message,
			text: isThinking ? message.text : message.text + body.delta,
			thinking: isThinking ? message.thinking + body.delta : message.thinking,
			thinkingTokens: body.thinkingTokens,
		},
	};
}
