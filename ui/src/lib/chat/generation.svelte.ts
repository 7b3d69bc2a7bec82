import type { Backend } from '../ipc/backend';
import type { MessageView, SeedChoice, StartedGeneration, StreamEvent } from '../ipc/wire';
import { applyStreamEvents, newAnswer, type Answer } from './applyStreamEvents';
import { FramePacer, type FrameClock } from './framePacer';

/** One run: from the request to the end of its answer. Its id is known before the first event. */
export class Generation {
	readonly requestId: string = crypto.randomUUID();
	readonly conversationId: string;
	answer = $state.raw<Answer>(newAnswer('', unsavedAnswer()));
	isStopping = $state(false);
	#backend: Backend;
	#isStored = false;
	#early: StreamEvent[] = [];
	#pacer: FramePacer<StreamEvent>;
	#onEnd: (answer: Answer) => void;

	constructor(backend: Backend, frames: FrameClock, conversationId: string, onEnd: (answer: Answer) => void) {
		this.#backend = backend;
		this.conversationId = conversationId;
		this.#onEnd = onEnd;
		this.#pacer = new FramePacer(frames, (events) => this.#apply(events));
		this.answer = newAnswer(this.requestId, unsavedAnswer());
	}

	get isRunning(): boolean {
		return this.answer.phase.kind !== 'ended';
	}

	/** Sends the message; `onStored` runs before any event is applied. */
	async start(text: string, onStored: (started: StartedGeneration) => void): Promise<void> {
		const request = { requestId: this.requestId, conversationId: this.conversationId, text };
		const started = await this.#backend.startGeneration(request, (events) => this.#receive(events));
		this.#begin(started.answer, () => onStored(started));
	}

	/** Asks for another version of an answer; `onStored` runs before any event is applied. */
	async regenerate(
		answerId: string,
		seed: SeedChoice,
		onStored: (version: MessageView) => void,
	): Promise<void> {
		const { requestId, conversationId } = this;
		const request = { requestId, conversationId, answerId, seed };
		const version = await this.#backend.regenerateAnswer(request, (events) => this.#receive(events));
		this.#begin(version, () => onStored(version));
	}

	async stop(): Promise<void> {
		if (!this.isRunning || this.isStopping) return;
		this.isStopping = true;
		try {
			await this.#backend.stopGeneration(this.requestId);
		} catch (thrown) {
			this.isStopping = false;
			throw thrown;
		}
	}

	#receive(events: StreamEvent[]) {
		if (this.#isStored) this.#pacer.push(events);
		else this.#early.push(...events);
	}

	#begin(answer: MessageView, onStored: () => void) {
		this.answer = newAnswer(this.requestId, answer);
		onStored();
		this.#isStored = true;
		this.#pacer.push(this.#early);
		this.#early = [];
	}

	#apply(events: StreamEvent[]) {
		const wasRunning = this.isRunning;
		this.answer = applyStreamEvents(this.answer, events);
		if (wasRunning && !this.isRunning) {
			this.isStopping = false;
			this.#onEnd(this.answer);
		}
	}
}

function unsavedAnswer(): MessageView {
	return {
		id: '',
		parentId: null,
		role: 'assistant',
		versionIds: [],
		text: '',
		thinking: '',
		thinkingTokens: 0,
		attachments: [],
		state: 'streaming',
		createdAtMs: 0,
		finishReason: null,
		receipt: null,
	};
}
