import type { Backend } from '../ipc/backend';
import type { MessageView, StreamEvent } from '../ipc/wire';
import { applyStreamEvents, newAnswer, type Answer } from './applyStreamEvents';
import { FramePacer, type FrameClock } from './framePacer';

/** One run: from the request to the end of its answer. Its id is known before the first event. */
export class Generation {
	readonly requestId: string = crypto.randomUUID();
	answer = $state.raw<Answer>(newAnswer('', unsavedAnswer()));
	isStopping = $state(false);
	#backend: Backend;
	#isStored = false;
	#early: StreamEvent[] = [];
	#pacer: FramePacer<StreamEvent>;
	#onEnd: (ended: Generation) => void;

	constructor(backend: Backend, frames: FrameClock, onEnd: (ended: Generation) => void) {
		this.#backend = backend;
		this.#onEnd = onEnd;
		this.#pacer = new FramePacer(frames, (events) => this.#apply(events));
		this.answer = newAnswer(this.requestId, unsavedAnswer());
	}

	get isRunning(): boolean {
		return this.answer.phase.kind !== 'ended';
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

	/** Takes what the stream says; held back until the answer is known to be stored. */
	receive(events: readonly StreamEvent[]) {
		const own = events.filter(({ requestId }) => requestId === this.requestId);
		if (this.#isStored) this.#pacer.push(own);
		else this.#early.push(...own);
	}

	/** Fills `answer`, which is on disk, from now on. */
	begin(answer: MessageView) {
		this.answer = newAnswer(this.requestId, answer);
	}

	/** Applies what came before the answer was on screen. */
	catchUp() {
		this.#isStored = true;
		this.#pacer.push(this.#early);
		this.#early = [];
	}

	#apply(events: StreamEvent[]) {
		const wasRunning = this.isRunning;
		this.answer = applyStreamEvents(this.answer, events);
		if (wasRunning && !this.isRunning) {
			this.isStopping = false;
			this.#onEnd(this);
		}
	}
}

/** How a call starts answers: with the listener of all their streams. */
export interface Start<T> {
	call: (onEvents: (events: StreamEvent[]) => void) => Promise<T>;
	/** The answers, one for each generation, in its order. */
	answersOf: (stored: T) => readonly MessageView[];
	/** Runs once the answers are on disk, and before any event is applied. */
	onStored: (stored: T) => void;
}

/** Starts the answers of `generations` with one call. */
export async function startTogether<T>(generations: readonly Generation[], start: Start<T>): Promise<void> {
	const stored = await start.call((events) => {
		for (const generation of generations) generation.receive(events);
	});
	const answers = start.answersOf(stored);
	for (const [i, generation] of generations.entries()) {
		const answer = answers[i];
		if (answer) generation.begin(answer);
	}
	start.onStored(stored);
	for (const generation of generations) generation.catchUp();
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
