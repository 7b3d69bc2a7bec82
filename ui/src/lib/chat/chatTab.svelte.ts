import { asFailure, type Backend, type CommandFailure } from '../ipc/backend';
import type {
	ConversationSummary,
	ErrorCode,
	MessageView,
	SamplingSettings,
	SeedChoice,
	TokenDetail,
} from '../ipc/wire';
import type { Answer } from './applyStreamEvents';
import { Draft } from './draft.svelte';
import { FrameClock } from './framePacer';
import { Generation } from './generation.svelte';
import { MarkdownStream } from './markdown';
import { ScrollKeeper } from './scroll.svelte';

/** How often an answer is read back that this window did not start itself (it was reloaded meanwhile). */
const followEveryMs = 600;

export type LoadState = { kind: 'loading' } | { kind: 'ready' } | { kind: 'failed'; failure: CommandFailure };

/** What did not work in this tab, and how to try that again. */
export interface Problem {
	failure: CommandFailure;
	retry: () => void;
}

/** Why an answer failed; the detail is known while the window that saw it is open. */
export interface AnswerFailure {
	code: ErrorCode;
	detail: string;
}

/** An open conversation: what it shows, what is typed, and the answer that is running. */
export class ChatTab {
	readonly id: string;
	readonly scroll = new ScrollKeeper();
	load = $state.raw<LoadState>({ kind: 'loading' });
	summary = $state.raw<ConversationSummary | null>(null);
	settings = $state.raw<SamplingSettings | null>(null);
	draft = $state.raw(
		new Draft(
			'',
			async () => {},
			() => {},
		),
	);
	generation = $state.raw<Generation | null>(null);
	problem = $state.raw<Problem | null>(null);
	isSending = $state(false);
	#stored = $state.raw<MessageView[]>([]);
	#failures = $state.raw<Record<string, AnswerFailure>>({});
	#followedRequestId = $state<string | null>(null);
	// eslint-disable-next-line svelte/prefer-svelte-reactivity -- a cache; what it gives follows from the message
	#drawings = new Map<string, MarkdownStream>();
	#backend: Backend;
	#frames: FrameClock;
	#onChange: () => void;
	#isClosed = false;
	#opening = Promise.resolve();

	constructor(backend: Backend, id: string, onChange: () => void, frames = new FrameClock()) {
		this.#backend = backend;
		this.#frames = frames;
		this.id = id;
		this.#onChange = onChange;
	}

	/** Messages on screen: the stored ones, with the running answer as far as it is. */
	get messages(): MessageView[] {
		const running = this.generation?.answer.message;
		if (!running || running.id === '') return this.#stored;
		return this.#stored.map((message) => (message.id === running.id ? running : message));
	}

	get isAnswering(): boolean {
		return (this.generation?.isRunning ?? false) || this.#followedRequestId !== null;
	}

	get isStopping(): boolean {
		return this.generation?.isStopping ?? false;
	}

	/** Nothing was ever said or typed here. */
	get isBlank(): boolean {
		return this.load.kind === 'ready' && this.#stored.length === 0 && this.draft.text.trim() === '';
	}

	failureOf(messageId: string): AnswerFailure | null {
		const seen = this.#failures[messageId];
		if (seen) return seen;
		const code = this.#stored.find((message) => message.id === messageId)?.failure;
		return code ? { code, detail: '' } : null;
	}

	/** Drawn blocks of a message; kept, so that showing the tab again parses nothing again. */
	drawingOf(messageId: string): MarkdownStream {
		const drawing = this.#drawings.get(messageId) ?? new MarkdownStream();
		this.#drawings.set(messageId, drawing);
		return drawing;
	}

	open(): Promise<void> {
		this.#opening = this.#read();
		return this.#opening;
	}

	/** Shows a message: scrolled to, and in place of another version of it. */
	async reveal(messageId: string): Promise<void> {
		await this.#opening;
		const isShown = () => this.messages.some((message) => message.id === messageId);
		if (this.load.kind !== 'ready') return;
		if (!isShown()) await this.selectVersion(messageId);
		if (isShown()) this.scroll.goTo(messageId);
	}

	async #read(): Promise<void> {
		this.load = { kind: 'loading' };
		try {
			const view = await this.#backend.openConversation(this.id);
			this.#show(view);
			this.settings = view.settings;
			this.draft = new Draft(
				view.draft,
				(text) => this.#backend.saveDraft(this.id, text),
				(thrown) => this.#fail(thrown, () => void this.#saveDraft()),
			);
			this.load = { kind: 'ready' };
			const running = view.activeRequests[0];
			if (running) this.#follow(running.requestId);
		} catch (thrown) {
			this.load = { kind: 'failed', failure: asFailure(thrown) };
		}
	}

	/** Sends what is typed. It leaves the composer only once it is on disk. */
	async send(): Promise<void> {
		if (this.isSending || this.isAnswering || this.load.kind !== 'ready') return;
		const text = this.draft.text;
		await this.#generate(
			async (generation) => {
				await generation.start(text, (started) =>
					this.#showRunning(generation, [...this.#stored, started.userMessage, started.answer]),
				);
				// What was typed while the message was being saved stays.
				if (this.draft.text === text) this.draft.write('');
				await this.#saveDraft();
			},
			() => void this.send(),
		);
	}

	/** Writes another version of an answer; what followed it stays with the version that it followed. */
	async regenerate(answerId: string, seed: SeedChoice): Promise<void> {
		if (this.isSending || this.isAnswering || this.load.kind !== 'ready') return;
		await this.#generate(
			(generation) =>
				generation.regenerate(answerId, seed, (version) => {
					const at = this.#stored.findIndex((message) => message.id === answerId);
					this.#showRunning(generation, [...this.#stored.slice(0, Math.max(0, at)), version]);
				}),
			() => void this.regenerate(answerId, seed),
		);
	}

	/** Shows another version of a message, and what followed it. */
	async selectVersion(messageId: string): Promise<void> {
		if (this.isSending || this.isAnswering) return;
		try {
			this.#show(await this.#backend.selectVersion(this.id, messageId));
			this.#onChange();
		} catch (thrown) {
			this.#fail(thrown, () => void this.selectVersion(messageId));
		}
	}

	tokenDetails(messageId: string): Promise<TokenDetail[]> {
		return this.#backend.readTokenDetails(messageId);
	}

	async stop(): Promise<void> {
		try {
			if (this.#followedRequestId !== null) await this.#backend.stopGeneration(this.#followedRequestId);
			await this.generation?.stop();
		} catch (thrown) {
			this.#fail(thrown, () => void this.stop());
		}
	}

	async writeSettings(settings: SamplingSettings): Promise<void> {
		const before = this.settings;
		this.settings = settings;
		try {
			await this.#backend.writeConversationSettings(this.id, settings);
		} catch (thrown) {
			this.settings = before;
			this.#fail(thrown, () => void this.writeSettings(settings));
		}
	}

	/** Saves the draft, ends the answer if one is running, and lets the engine forget the conversation. */
	async close(): Promise<void> {
		this.#isClosed = true;
		await Promise.all([this.draft.flush().catch(() => {}), this.stop()]);
		await this.#backend.closeConversation(this.id);
	}

	/** Starts an answer with `start`; what fails is said in the tab, with `retry` as the way out. */
	async #generate(start: (generation: Generation) => Promise<void>, retry: () => void): Promise<void> {
		const generation = new Generation(this.#backend, this.#frames, this.id, (answer) =>
			this.#onAnswerEnd(answer),
		);
		this.isSending = true;
		this.problem = null;
		try {
			await start(generation);
			this.#onChange();
		} catch (thrown) {
			this.#fail(thrown, retry);
		} finally {
			this.isSending = false;
		}
	}

	#showRunning(generation: Generation, messages: MessageView[]) {
		this.#stored = messages;
		this.generation = generation;
		this.scroll.jumpToEnd();
	}

	#fail(thrown: unknown, retry: () => void) {
		this.problem = { failure: asFailure(thrown), retry };
	}

	async #saveDraft(): Promise<void> {
		await this.draft.flush().catch((thrown: unknown) => this.#fail(thrown, () => void this.#saveDraft()));
	}

	#show({ messages, summary }: { messages: MessageView[]; summary: ConversationSummary }) {
		this.#stored = messages;
		this.summary = summary;
	}

	#onAnswerEnd(answer: Answer) {
		this.#stored = this.#stored.map((message) =>
			message.id === answer.message.id ? answer.message : message,
		);
		if (answer.failure) this.#failures = { ...this.#failures, [answer.message.id]: answer.failure };
		this.generation = null;
		if (answer.hasGap)
			this.#readAgain().catch((thrown: unknown) => this.#fail(thrown, () => void this.open()));
		this.#onChange();
	}

	async #readAgain(): Promise<string | null> {
		const view = await this.#backend.openConversation(this.id);
		this.#show(view);
		return view.activeRequests[0]?.requestId ?? null;
	}

	#follow(requestId: string) {
		this.#followedRequestId = requestId;
		const timer = setInterval(() => {
			this.#readAgain()
				.then((running) => {
					if (running === requestId && !this.#isClosed) return;
					clearInterval(timer);
					this.#followedRequestId = null;
					this.#onChange();
				})
				.catch((thrown: unknown) => {
					clearInterval(timer);
					this.#followedRequestId = null;
					this.#fail(thrown, () => void this.open());
				});
		}, followEveryMs);
	}
}
