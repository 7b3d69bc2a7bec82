import type { Backend } from '../ipc/backend';
import type { ActiveRequest, MessageView } from '../ipc/wire';
import type { Generation } from './generation.svelte';

/** How often answers are read back that this window did not start itself (it was reloaded meanwhile). */
const followEveryMs = 600;

/** A tab's answers that are being written: those whose stream this window has, and those that it reads back. */
export class AnswerRuns {
	#streams = $state.raw<readonly Generation[]>([]);
	#followed = $state.raw<readonly ActiveRequest[]>([]);
	#backend: Backend;
	#isClosed = false;

	constructor(backend: Backend) {
		this.#backend = backend;
	}

	get isRunning(): boolean {
		return this.#streams.some((stream) => stream.isRunning) || this.#followed.length > 0;
	}

	/** Every answer has been told to stop. */
	get isStopping(): boolean {
		return this.#streams.length > 0 && this.#streams.every((stream) => stream.isStopping);
	}

	/** The first of the answers whose stream this window has. */
	get first(): Generation | null {
		return this.#streams[0] ?? null;
	}

	/** The stream that fills a message. */
	of(messageId: string): Generation | null {
		return this.#streams.find((stream) => stream.answer.message.id === messageId) ?? null;
	}

	isFilling(messageId: string): boolean {
		return this.of(messageId) !== null || this.#followed.some(({ answerId }) => answerId === messageId);
	}

	/** The message as far as it is written. */
	latest(message: MessageView): MessageView {
		return this.of(message.id)?.answer.message ?? message;
	}

	add(started: readonly Generation[]) {
		this.#streams = [...this.#streams.filter((stream) => stream.isRunning), ...started];
	}

	/** Forgets a stream that has ended. */
	remove(ended: Generation) {
		this.#streams = this.#streams.filter((stream) => stream !== ended);
	}

	/** Stops all answers, or only the one that fills `messageId`. */
	async stop(messageId: string | null = null): Promise<void> {
		const isMeant = (answerId: string) => messageId === null || messageId === answerId;
		const followed = this.#followed.filter(({ answerId }) => isMeant(answerId));
		const streams = this.#streams.filter((stream) => isMeant(stream.answer.message.id));
		await Promise.all([
			...followed.map(({ requestId }) => this.#backend.stopGeneration(requestId)),
			...streams.map((stream) => stream.stop()),
		]);
	}

	/** Reads answers back with `read`, which says what still runs, until nothing does. */
	follow(requests: readonly ActiveRequest[], read: () => Promise<readonly ActiveRequest[]>): Promise<void> {
		this.#followed = requests;
		if (requests.length === 0) return Promise.resolve();
		return new Promise((resolve, reject) => {
			const next = () => {
				read()
					.then((running) => {
						this.#followed = this.#isClosed ? [] : running;
						if (this.#followed.length === 0) resolve();
						else setTimeout(next, followEveryMs);
					})
					.catch((thrown: unknown) => {
						this.#followed = [];
						reject(thrown);
					});
			};
			setTimeout(next, followEveryMs);
		});
	}

	/** Follows nothing any more. */
	close() {
		this.#isClosed = true;
	}
}
