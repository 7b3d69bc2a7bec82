import { asFailure, type Backend, type CommandFailure } from '../ipc/backend';
import type {
	ActiveRequest,
	ConversationSummary,
	ConversationView,
	ErrorCode,
	MessageView,
	SamplingSettings,
	SeedChoice,
	TokenDetail,
} from '../ipc/wire';
import { AnswerRuns } from './answerRuns.svelte';
import { Draft } from './draft.svelte';
import { DraftAttachments } from './draftAttachments.svelte';
import { FrameClock } from './framePacer';
import { Generation, startTogether, type Start } from './generation.svelte';
import { MarkdownStream } from './markdown';
import { ScrollKeeper } from './scroll.svelte';

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

/** An open conversation: what it shows, what is typed, and the answers that are running. */
export class ChatTab {
	readonly id: string;
	readonly scroll = new ScrollKeeper();
	readonly attachments: DraftAttachments;
	/** Called when the last running answer has ended. */
	onAnswerEnd: (tabId: string) => void = () => {};
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
	problem = $state.raw<Problem | null>(null);
	isSending = $state(false);
	/** Versions of one message that are shown side by side. */
	#compared = $state.raw<readonly MessageView[] | null>(null);
	#runs: AnswerRuns;
	#stored = $state.raw<MessageView[]>([]);
	#failures = $state.raw<Record<string, AnswerFailure>>({});
	/** What answers of a fan-out were asked with, until their receipts say what they were made with. */
	#variants = $state.raw<Record<string, SamplingSettings>>({});
	// eslint-disable-next-line svelte/prefer-svelte-reactivity -- a cache; what it gives follows from the message
	#drawings = new Map<string, MarkdownStream>();
	#backend: Backend;
	#frames: FrameClock;
	#onChange: () => void;
	#opening = Promise.resolve();
	/** The place that is stored, as JSON. */
	#scroll = 'null';

	constructor(backend: Backend, id: string, onChange: () => void, frames = new FrameClock()) {
		this.#backend = backend;
		this.#frames = frames;
		this.id = id;
		this.#onChange = onChange;
		this.#runs = new AnswerRuns(backend);
		this.scroll.onRest = () => void this.saveScroll();
		this.attachments = new DraftAttachments(backend, id);
	}

	/** Messages on screen: the stored ones, with the running answers as far as they are. */
	get messages(): MessageView[] {
		if (this.#runs.first === null) return this.#stored;
		return this.#stored.map((message) => this.#runs.latest(message));
	}

	/** Versions of one message to be shown side by side, as far as they are; `null` while none are. */
	get compared(): MessageView[] | null {
		return this.#compared?.map((message) => this.#runs.latest(message)) ?? null;
	}

	/** Settings of an answer, as far as they are known. */
	settingsOf(messageId: string): SamplingSettings | null {
		const known = [...(this.#compared ?? []), ...this.#stored].find(({ id }) => id === messageId);
		return known?.receipt?.settings ?? this.#variants[messageId] ?? null;
	}

	/** The first answer whose stream this window has. */
	get generation(): Generation | null {
		return this.#runs.first;
	}

	/** The stream that fills a message, if this window has it. */
	generationOf(messageId: string): Generation | null {
		return this.#runs.of(messageId);
	}

	get isAnswering(): boolean {
		return this.#runs.isRunning;
	}

	get isStopping(): boolean {
		return this.#runs.isStopping;
	}

	/** Whether something new can be asked for. */
	get isFree(): boolean {
		return !this.isSending && !this.isAnswering && this.load.kind === 'ready';
	}

	/** Nothing was ever said or typed here. */
	get isBlank(): boolean {
		const isUntouched = this.draft.text.trim() === '' && this.attachments.all.length === 0;
		return this.load.kind === 'ready' && this.#stored.length === 0 && isUntouched;
	}

	failureOf(messageId: string): AnswerFailure | null {
		const seen = this.#failures[messageId];
		if (seen) return seen;
		const known = [...this.#stored, ...(this.#compared ?? [])];
		const code = known.find((message) => message.id === messageId)?.failure;
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
		this.closeComparison();
		if (!isShown()) await this.selectVersion(messageId);
		if (isShown()) this.scroll.goTo(messageId);
	}

	async #read(): Promise<void> {
		this.load = { kind: 'loading' };
		try {
			const view = await this.#backend.openConversation(this.id);
			this.#show(view);
			if (view.scroll && view.activeRequests.length === 0) this.scroll.restore(view.scroll);
			this.#scroll = JSON.stringify(view.scroll);
			this.settings = view.settings;
			this.attachments.all = view.draftAttachments;
			this.draft = new Draft(
				view.draft,
				(text) => this.#backend.saveDraft(this.id, text),
				(thrown) => this.#fail(thrown, () => void this.#saveDraft()),
			);
			const [first, second] = view.activeRequests;
			if (first && second) this.#compared = await this.#backend.readVersions(this.id, first.answerId);
			this.load = { kind: 'ready' };
			void this.#follow(view.activeRequests);
		} catch (thrown) {
			this.load = { kind: 'failed', failure: asFailure(thrown) };
		}
	}

	/** Sends what is typed. It leaves the composer only once it is on disk. */
	async send(): Promise<void> {
		const text = this.draft.text;
		if (await this.#ask(text, () => void this.send())) await this.#clearDraft(text);
	}

	/** Sends a text that was typed elsewhere; what is typed here stays. */
	async ask(text: string): Promise<void> {
		await this.#ask(text, () => void this.ask(text));
	}

	#ask(text: string, retry: () => void): Promise<boolean> {
		return this.#generate(retry, 1, ([generation]) => ({
			call: (onEvents) => this.#backend.startGeneration({ ...this.#named(generation), text }, onEvents),
			answersOf: ({ answer }) => [answer],
			onStored: ({ userMessage, answer }) => this.#showRunning([...this.#stored, userMessage, answer], null),
		}));
	}

	/** Sends what is typed once for each of `variants`, and shows the answers side by side. */
	async fanOut(variants: readonly SamplingSettings[]): Promise<void> {
		const text = this.draft.text;
		const retry = () => void this.fanOut(variants);
		const wasSent = await this.#generate(retry, variants.length, (generations) => ({
			call: (onEvents) =>
				this.#backend.fanOut(
					{
						conversationId: this.id,
						text,
						variants: generations.map(({ requestId }, i) => ({
							requestId,
							settings: variants[i] as SamplingSettings,
						})),
					},
					onEvents,
				),
			answersOf: ({ answers }) => answers,
			onStored: ({ userMessage, answers }) => {
				this.#variants = Object.fromEntries(
					answers.map(({ id }, i) => [id, variants[i] as SamplingSettings]),
				);
				this.#showRunning([...this.#stored, userMessage, ...answers.slice(0, 1)], answers);
			},
		}));
		if (wasSent) await this.#clearDraft(text);
	}

	/** Writes another version of an answer; what followed it stays with the version that it followed. */
	async regenerate(answerId: string, seed: SeedChoice): Promise<void> {
		await this.#generate(
			() => void this.regenerate(answerId, seed),
			1,
			([generation]) => ({
				call: (onEvents) =>
					this.#backend.regenerateAnswer({ ...this.#named(generation), answerId, seed }, onEvents),
				answersOf: (version) => [version],
				onStored: (version) => this.#showRunning([...this.#before(answerId), version], null),
			}),
		);
	}

	/** Asks a question in other words, and gets another answer; the old ones stay as versions. */
	async editQuestion(messageId: string, text: string): Promise<void> {
		await this.#generate(
			() => void this.editQuestion(messageId, text),
			1,
			([generation]) => ({
				call: (onEvents) =>
					this.#backend.editMessage({ ...this.#named(generation), messageId, text }, onEvents),
				answersOf: ({ answer }) => [answer],
				onStored: ({ userMessage, answer }) =>
					this.#showRunning([...this.#before(messageId), userMessage, answer], null),
			}),
		);
	}

	/** Lets an answer that ended early go on. */
	async continueAnswer(answerId: string): Promise<void> {
		await this.#generate(
			() => void this.continueAnswer(answerId),
			1,
			([generation]) => ({
				call: (onEvents) => this.#backend.continueAnswer({ ...this.#named(generation), answerId }, onEvents),
				answersOf: (answer) => [answer],
				onStored: (answer) => {
					this.#failures = Object.fromEntries(
						Object.entries(this.#failures).filter(([id]) => id !== answerId),
					);
					this.#showRunning([...this.#before(answerId), answer], null);
				},
			}),
		);
	}

	/** Writes a version of an answer that takes another token at one place. */
	async branch(answerId: string, tokenIndex: number, token: number): Promise<void> {
		const retry = () => void this.branch(answerId, tokenIndex, token);
		await this.#generate(retry, 1, ([generation]) => ({
			call: (onEvents) =>
				this.#backend.branchAnswer({ ...this.#named(generation), answerId, tokenIndex, token }, onEvents),
			answersOf: (version) => [version],
			onStored: (version) => this.#showRunning([...this.#before(answerId), version], null),
		}));
	}

	/** Shows another version of a message, and what followed it. */
	async selectVersion(messageId: string): Promise<void> {
		await this.#change(
			() => this.#backend.selectVersion(this.id, messageId),
			() => void this.selectVersion(messageId),
		);
	}

	/** Adds a version of an answer that the user wrote. */
	async writeVersion(answerId: string, text: string): Promise<void> {
		await this.#change(
			() => this.#backend.writeAnswerVersion(this.id, answerId, text),
			() => void this.writeVersion(answerId, text),
		);
	}

	/** Goes on with one of the answers that stand side by side; the others stop, and stay as versions. */
	async keep(answerId: string): Promise<void> {
		try {
			const view = await this.#backend.keepAnswer(this.id, answerId);
			this.#show(view);
			this.#compared = null;
			this.scroll.jumpToEnd();
			this.#onChange();
		} catch (thrown) {
			this.#fail(thrown, () => void this.keep(answerId));
		}
	}

	/** Shows every version of a message side by side. */
	async compare(messageId: string): Promise<void> {
		try {
			this.#compared = await this.#backend.readVersions(this.id, messageId);
		} catch (thrown) {
			this.#fail(thrown, () => void this.compare(messageId));
		}
	}

	closeComparison() {
		this.#compared = null;
	}

	tokenDetails(messageId: string): Promise<TokenDetail[]> {
		return this.#backend.readTokenDetails(messageId);
	}

	/** Stops all answers, or only one of several. */
	async stop(messageId: string | null = null): Promise<void> {
		try {
			await this.#runs.stop(messageId);
		} catch (thrown) {
			this.#fail(thrown, () => void this.stop(messageId));
		}
	}

	/** Keeps where the reader is; a place that cannot be kept is no reason to trouble anybody. */
	async saveScroll(): Promise<void> {
		const place = this.scroll.place();
		if (place === undefined || JSON.stringify(place) === this.#scroll || this.load.kind !== 'ready') return;
		this.#scroll = JSON.stringify(place);
		await this.#backend.saveScroll(this.id, place).catch(() => {});
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

	/** Saves the draft, ends the answers that are running, and lets the engine forget the conversation. */
	async close(): Promise<void> {
		this.#runs.close();
		await Promise.all([this.draft.flush().catch(() => {}), this.saveScroll(), this.stop()]);
		await this.#backend.closeConversation(this.id);
	}

	#named(generation: Generation | undefined) {
		return { requestId: generation?.requestId ?? '', conversationId: this.id };
	}

	#before(messageId: string): MessageView[] {
		const at = this.#stored.findIndex((message) => message.id === messageId);
		return this.#stored.slice(0, Math.max(0, at));
	}

	/** Starts answers; what fails is said in the tab, with `retry` as the way out. Returns whether it worked. */
	async #generate<T>(
		retry: () => void,
		answers: number,
		start: (generations: Generation[]) => Start<T>,
	): Promise<boolean> {
		if (!this.isFree) return false;
		const generations = Array.from(
			{ length: answers },
			() => new Generation(this.#backend, this.#frames, (ended) => this.#onEnd(ended)),
		);
		const { onStored, ...calls } = start(generations);
		this.isSending = true;
		this.problem = null;
		try {
			await startTogether(generations, {
				...calls,
				onStored: (stored) => {
					this.#runs.add(generations);
					onStored(stored);
				},
			});
			this.#onChange();
			return true;
		} catch (thrown) {
			this.#fail(thrown, retry);
			return false;
		} finally {
			this.isSending = false;
		}
	}

	/** Changes which messages are shown. */
	async #change(call: () => Promise<ConversationView>, retry: () => void): Promise<void> {
		if (!this.isFree) return;
		try {
			this.#show(await call());
			this.#compared = null;
			this.#onChange();
		} catch (thrown) {
			this.#fail(thrown, retry);
		}
	}

	#showRunning(messages: MessageView[], compared: readonly MessageView[] | null) {
		this.#stored = messages;
		this.#compared = compared;
		this.scroll.jumpToEnd();
	}

	#fail(thrown: unknown, retry: () => void) {
		this.problem = { failure: asFailure(thrown), retry };
	}

	/** What was typed while the message was being saved stays. */
	async #clearDraft(sent: string): Promise<void> {
		if (this.draft.text === sent) this.draft.write('');
		this.attachments.all = [];
		await this.#saveDraft();
	}

	async #saveDraft(): Promise<void> {
		await this.draft.flush().catch((thrown: unknown) => this.#fail(thrown, () => void this.#saveDraft()));
	}

	#show({ messages, summary }: { messages: MessageView[]; summary: ConversationSummary }) {
		this.#stored = messages;
		this.summary = summary;
	}

	#onEnd(ended: Generation) {
		const { message, failure, hasGap } = ended.answer;
		const replace = (other: MessageView) => (other.id === message.id ? message : other);
		this.#stored = this.#stored.map(replace);
		this.#compared = this.#compared?.map(replace) ?? null;
		if (failure) this.#failures = { ...this.#failures, [message.id]: failure };
		this.#runs.remove(ended);
		if (hasGap) this.#readAgain().catch((thrown: unknown) => this.#fail(thrown, () => void this.open()));
		this.#onChange();
		if (!this.isAnswering) this.onAnswerEnd(this.id);
	}

	async #readAgain(): Promise<readonly ActiveRequest[]> {
		const view = await this.#backend.openConversation(this.id);
		this.#show(view);
		const compared = this.#compared?.[0];
		if (compared) {
			const versions = await this.#backend.readVersions(this.id, compared.id);
			if (this.#compared !== null) this.#compared = versions;
		}
		return view.activeRequests;
	}

	/** Shows answers that this window did not start, until they have ended. */
	async #follow(requests: readonly ActiveRequest[]): Promise<void> {
		if (requests.length === 0) return;
		try {
			await this.#runs.follow(requests, () => this.#readAgain());
			this.#onChange();
			this.onAnswerEnd(this.id);
		} catch (thrown) {
			this.#fail(thrown, () => void this.open());
		}
	}
}
