import type { Backend } from '../ipc/backend';
import type { MessageView, StartedGeneration, StreamEvent } from '../ipc/wire';
import { applyStreamEvents, newAnswer, type Answer } from './applyStreamEvents';
import { FramePacer } from './framePacer';

/** One run: from the request to the end of its answer. Its id is known before the first event. */
export class Generation {
	readonly requestId: string = crypto.randomUUID();
	readonly conversationId: string;
	answer = $state.raw<Answer>(newAnswer('', unsavedAnswer()));
	isStopping = $state(false);
	#backend: Backend;
	#isStored = false;
	#early: StreamEvent[] = [];
	#pacer = new FramePacer<StreamEvent>((events) => this.#apply(events));
	#onEnd: (answer: Answer) => void;

	constructor(backend: Backend, conversationId: string, onEnd: (answer: Answer) => void) {
		this.#backend = backend;
		this.conversationId = conversationId;
		this.#onEnd = onEnd;
		this.answer = newAnswer(this.requestId, unsavedAnswer());
	}

	get isRunning(): boolean {
		return this.answer.phase.kind !== 'ended';
	}

	/** Sends the message; `onStored` runs before any event is applied. */
	async start(text: string, onStored: (started: StartedGeneration) => void): Promise<void> {
		const request = { requestId: this.requestId, conversationId: this.conversationId, text };
		const started = await this.#backend.startGeneration(request, (events) => {
			if (this.#isStored) this.#pacer.push(events);
			else this.#early.push(...events);
		});
		this.answer = newAnswer(this.requestId, started.answer);
		onStored(started);
		this.#isStored = true;
		this.#pacer.push(this.#early);
		this.#early = [];
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
		text: '',
		state: 'streaming',
		createdAtMs: 0,
		finishReason: null,
		receipt: null,
	};
}
