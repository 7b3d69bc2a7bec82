import type {
	EnginePhase,
	EngineStatus,
	ErrorCode,
	FinishReason,
	GateMode,
	GatePath,
	ModeEffect,
	ModelSummary,
	OverlapMode,
	PathReason,
	Receipt,
	RowStatus,
	SamplingSettings,
	StepBar,
	StreamEvent,
	StreamEventBody,
	TokenDetail,
} from '../wire';
import type { AnswerScript } from './answers';
import { starter, summaryOf } from './modelShelf';
import type { Scenario } from './scenarios';

export interface ScriptedRequest {
	requestId: string;
	conversationId: string;
	answerId: string;
	settings: SamplingSettings;
	script: AnswerScript;
	promptTokens: number;
	/** Tokens of the prompt that need no reading again. */
	cachedTokens: number;
	/** Tokens that the answer has already, when it goes on. */
	before: { answerTokens: number; thinkingTokens: number };
	/** Called once, when the answer has ended. */
	onEnd(ended: EndedAnswer): void;
	emit(events: StreamEvent[]): void;
}

/** What is left of an answer. */
export interface EndedAnswer {
	text: string;
	thinking: string;
	details: TokenDetail[];
	reason: FinishReason;
	receipt: Receipt;
	failure: ErrorCode | null;
}

interface Row {
	request: ScriptedRequest;
	phase: RowStatus['phase'];
	/** Thinking and answer, in the order in which they come. */
	tokens: string[];
	/** Events of the timer's turn that goes on; they travel together. */
	outbox: StreamEvent[];
	readTokens: number;
	/** Tokens of thinking and answer together. */
	sent: number;
	details: TokenDetail[];
	seed: string;
	sequence: number;
	gate: GatePath | null;
	startedAtMs: number;
	ttftMs: number | null;
	fusedSteps: number;
	perRowSteps: number;
	batchRows: number;
}

const prefillChunkTokens = 24;

/** Plays canned tokens as the real engine would: rows join, decode one token a step, and leave. */
export class ScriptedEngine {
	phase: EnginePhase;
	gateMode: GateMode = 'split';
	overlap: OverlapMode = 'adaptive';
	#scenario: Scenario;
	#model: ModelSummary;
	#rows: Row[] = [];
	#steps = 0;
	#fusedSteps = 0;
	#recent: StepBar[] = [];
	#modeEffects: ModeEffect[] = [];
	#watchers: ((status: EngineStatus) => void)[] = [];

	constructor(scenario: Scenario) {
		this.#scenario = scenario;
		this.#model = summaryOf(starter, scenario.isExactRate ? 10_000_000 : 2048);
		this.phase =
			scenario.engine === 'failed'
				? { kind: 'failed', code: 'engineFailed', detail: 'the engine thread panicked: scripted' }
				: { kind: scenario.engine };
		this.#runTimer();
		setInterval(() => this.#report(), 250);
	}

	#runTimer() {
		const { stepMs, isExactRate } = this.#scenario;
		if (!isExactRate) {
			setInterval(() => this.#step(), stepMs);
			return;
		}
		const startedAtMs = performance.now();
		let steps = 0;
		setInterval(() => {
			for (; steps < Math.floor((performance.now() - startedAtMs) / stepMs); steps += 1) this.#step();
			for (const row of this.#rows) sendOut(row);
		}, 16);
	}

	watch(watcher: (status: EngineStatus) => void) {
		this.#watchers.push(watcher);
		watcher(this.status());
	}

	restart() {
		this.phase = { kind: 'loading' };
		this.#report();
		setTimeout(() => {
			this.phase = { kind: 'ready' };
			this.#report();
		}, 600);
	}

	/** Runs another model from now on: rows of the one before end, their text is kept. */
	replaceModel(model: ModelSummary) {
		for (const row of this.#rows) this.#fail(row, 'modelReplaced');
		this.#model = model;
		this.phase = { kind: 'ready' };
		this.#report();
	}

	/** Runs no model from now on. */
	unload(code: ErrorCode) {
		for (const row of this.#rows) this.#fail(row, 'modelUnloaded');
		this.phase = { kind: 'failed', code, detail: '' };
		this.#report();
	}

	submit(request: ScriptedRequest) {
		const row: Row = {
			request,
			phase: 'queued',
			tokens: [...request.script.thinking, ...request.script.answer],
			outbox: [],
			readTokens: Math.min(request.cachedTokens, request.promptTokens - 1),
			sent: 0,
			details: [],
			seed: request.settings.seed ?? String(17_402_936_581 + this.#rows.length),
			sequence: 0,
			gate: null,
			startedAtMs: performance.now(),
			ttftMs: null,
			fusedSteps: 0,
			perRowSteps: 0,
			batchRows: 0,
		};
		const ahead = this.#rows.filter((other) => other.phase === 'queued').length;
		this.#rows.push(row);
		this.#emit(row, { kind: 'queued', ahead });
	}

	stop(requestId: string) {
		const row = this.#rows.find((other) => other.request.requestId === requestId);
		if (row) this.#finish(row, 'stopped');
	}

	isRunning(requestId: string): boolean {
		return this.#rows.some((row) => row.request.requestId === requestId);
	}

	writtenSoFar(requestId: string): Written | null {
		const row = this.#rows.find((other) => other.request.requestId === requestId);
		return row ? written(row) : null;
	}

	status(): EngineStatus {
		const decoding = this.#rows.filter((row) => row.phase === 'decoding');
		const perRow = decoding.filter((row) => row.gate?.path === 'perRow').length;
		const stepS = this.#scenario.stepMs / 1000;
		const isReady = this.phase.kind === 'ready';
		const waits = decoding.length === 0 ? 0 : (perRow < decoding.length ? 1 : 0) + perRow;
		const overlaps = perRow === 0 && this.overlap !== 'off';
		return {
			phase: this.phase,
			model: isReady ? this.#model : null,
			gateMode: this.gateMode,
			overlap: this.overlap,
			rows: [
				...this.#rows.map((row, i) => this.#rowStatus(row, i)),
				...(this.#scenario.hasVisitors ? visitors(this.#model.contextTokens) : []),
			],
			steps: {
				totalTokS: decoding.length / stepS,
				batchRows: decoding.length,
				decodeSteps: this.#steps,
				fusedSteps: this.#fusedSteps,
				perRowSteps: this.#steps - this.#fusedSteps,
				stepMsP50: this.#steps === 0 ? 0 : this.#scenario.stepMs,
				forwardMsP50: this.#steps === 0 ? 0 : 2.1,
				sampleMsP50: this.#steps === 0 ? 0 : 0.6 + perRow * 0.4,
				waitMsP50: this.#steps === 0 ? 0 : this.#scenario.stepMs - 4.2,
				hostMsP50: this.#steps === 0 ? 0 : 1.1,
				evalsPerStep: waits,
				replays: 0,
				overlapOff: overlaps ? null : this.overlap === 'off' ? 'switchedOff' : 'perRowRows',
				overlappedSteps: this.#fusedSteps,
				forwardsOverlapped: this.#fusedSteps,
				submitMsP50: 0.4,
				batchReasons: decoding.length === 1 ? ['singleRow'] : [],
				waitsPerStep: waits,
				hostReadsPerStep: waits,
				recent: this.#recent,
			},
			memory: isReady ? memory : null,
			modeEffects: this.#modeEffects,
		};
	}

	#rowStatus(row: Row, index: number): RowStatus {
		const { request } = row;
		return {
			requestId: request.requestId,
			source: 'tab',
			conversationId: request.conversationId,
			answerId: request.answerId,
			phase: row.phase,
			ahead: this.#rows.slice(0, index).filter((other) => other.phase === 'queued').length,
			prefillDoneTokens: row.readTokens,
			promptTokens: request.promptTokens,
			cachedTokens: request.cachedTokens,
			answerTokens: row.sent,
			perRowMs: row.perRowSteps > 0 ? 4 : null,
			kvCacheTokens: row.readTokens + row.sent,
			contextTokens: this.#model.contextTokens,
			gate: row.gate,
			decodeTokS: row.sent > 1 ? 1000 / this.#scenario.stepMs : null,
			ttftMs: row.ttftMs,
			itlMsP50: row.sent > 1 ? this.#scenario.stepMs : null,
			itlMsP95: row.sent > 1 ? this.#scenario.stepMs * 1.3 : null,
		};
	}

	#report() {
		const status = this.#scenario.breaksDrawing
			? { ...this.status(), steps: null as unknown as EngineStatus['steps'] }
			: this.status();
		for (const watcher of this.#watchers) watcher(status);
	}

	#step() {
		if (this.phase.kind !== 'ready') return;
		const admitted = this.#rows.filter((row) => row.phase !== 'queued').length;
		const waiting = this.#rows.filter((row) => row.phase === 'queued');
		for (const row of waiting.slice(0, Math.max(0, this.#scenario.slots - admitted))) {
			row.phase = 'prefilling';
		}
		const decoding = this.#rows.filter((row) => row.phase === 'decoding');
		for (const row of this.#rows.filter((other) => other.phase === 'prefilling')) this.#read(row);
		if (decoding.length > 0) this.#decode(decoding);
	}

	#read(row: Row) {
		const { promptTokens } = row.request;
		row.readTokens = Math.min(promptTokens, row.readTokens + prefillChunkTokens);
		this.#emit(row, { kind: 'prefilling', doneTokens: row.readTokens, totalTokens: promptTokens });
		if (row.readTokens < promptTokens) return;
		row.phase = 'decoding';
		const { structuredOutput } = row.request.settings;
		if (structuredOutput && this.#scenario.refusesGrammars) this.#fail(row, 'grammarRefused');
	}

	#decode(rows: Row[]) {
		this.#steps += 1;
		const gates = rows.map((row) => this.#gateOf(row, rows));
		const perRowRows = gates.filter((gate) => gate.path === 'perRow').length;
		if (perRowRows === 0) this.#fusedSteps += 1;
		// A little unevenness, as a real machine has; from the step's number, so that runs are alike.
		const stepMs = this.#scenario.stepMs * (0.9 + ((this.#steps * 7) % 10) / 50) + perRowRows * 4;
		const bar = { step: this.#steps, batchRows: rows.length, perRowRows, stepMs };
		this.#recent = [...this.#recent.slice(-119), bar];
		this.#noteEffect(rows.length, stepMs);
		rows.forEach((row, i) => this.#decodeRow(row, gates[i] as GatePath, rows.length));
	}

	/** Keeps what a step took, by mode, while the batch has the same size. */
	#noteEffect(batchRows: number, stepMs: number) {
		const ofSize = this.#modeEffects.filter((effect) => effect.batchRows === batchRows);
		const others = ofSize.filter((effect) => effect.mode !== this.gateMode);
		const before = ofSize.find((effect) => effect.mode === this.gateMode);
		const steps = Math.min(256, (before?.steps ?? 0) + 1);
		this.#modeEffects = [...others, { mode: this.gateMode, batchRows, steps, stepMsP50: stepMs }];
	}

	#decodeRow(row: Row, gate: GatePath, batchRows: number) {
		if (row.gate?.path !== gate.path || row.gate.causedByConversationId !== gate.causedByConversationId) {
			row.gate = gate;
			this.#emit(row, { kind: 'path', path: gate });
		}
		row[gate.path === 'fused' ? 'fusedSteps' : 'perRowSteps'] += 1;
		row.batchRows += batchRows;
		row.ttftMs ??= performance.now() - row.startedAtMs;
		this.#write(row);
		const { script, settings } = row.request;
		const fails = this.#scenario.answerFailsAfter;
		if (fails !== null && row.sent >= fails) return this.#fail(row, this.#scenario.answerFailsWith);
		const maxTokens = this.#scenario.answerCharacters === null ? settings.maxTokens : Infinity;
		if (row.sent >= maxTokens) this.#finish(row, 'maxTokens');
		else if (this.#scenario.isIncomplete && row.sent >= 8) this.#finish(row, 'incomplete');
		else if (row.sent >= script.thinking.length + script.answer.length) this.#finish(row, 'endOfTurn');
	}

	#write(row: Row) {
		const { script, settings } = row.request;
		const isThinking = row.sent < script.thinking.length;
		const delta = row.tokens[row.sent] ?? '';
		const isForced = isThinking && row.sent === script.thinking.length - 1;
		if (settings.logprobs !== null) row.details.push(detailOf(delta, row.sent, settings, isForced));
		row.sent += 1;
		const part = isThinking ? 'thinking' : 'answer';
		this.#emit(row, { kind: 'text', part, delta, ...tokensOf(row) });
	}

	#gateOf(row: Row, rows: Row[]): GatePath {
		const own = needsOf(row.request.settings);
		const sinceStep = this.#steps;
		if (this.gateMode === 'folded') {
			return { path: 'fused', reasons: own, causedByConversationId: null, sinceStep };
		}
		const inNeed = (other: Row) => needsOf(other.request.settings).length > 0;
		const cause = this.gateMode === 'strict' ? (rows.find(inNeed) ?? null) : null;
		const isOwn = own.length > 0;
		const isPerRow = isOwn || cause !== null;
		return {
			path: isPerRow ? 'perRow' : 'fused',
			reasons: isOwn ? own : cause ? needsOf(cause.request.settings) : [],
			causedByConversationId: isPerRow && !isOwn ? (cause?.request.conversationId ?? null) : null,
			sinceStep,
		};
	}

	#finish(row: Row, reason: FinishReason) {
		const receipt = this.#receipt(row);
		this.#leave(row);
		row.request.onEnd({ ...written(row), details: row.details, reason, receipt, failure: null });
		this.#emit(row, { kind: 'finished', reason, receipt });
	}

	#fail(row: Row, code: ErrorCode) {
		const receipt = this.#receipt(row);
		this.#leave(row);
		const { details } = row;
		row.request.onEnd({ ...written(row), details, reason: 'failed', receipt, failure: code });
		this.#emit(row, { kind: 'failed', code, detail: failureDetail[code] ?? 'scripted', receipt });
	}

	#leave(row: Row) {
		this.#rows = this.#rows.filter((other) => other !== row);
	}

	#receipt(row: Row): Receipt {
		const steps = row.fusedSteps + row.perRowSteps;
		const { answerTokens, thinkingTokens } = tokensOf(row);
		return {
			ttftMs: row.ttftMs,
			decodeTokS: row.sent > 1 ? 1000 / this.#scenario.stepMs : null,
			itlMsP50: row.sent > 1 ? this.#scenario.stepMs : null,
			itlMsP95: row.sent > 1 ? this.#scenario.stepMs * 1.3 : null,
			promptTokens: row.request.promptTokens,
			cachedTokens: row.request.cachedTokens,
			answerTokens,
			thinkingTokens,
			fusedSteps: row.fusedSteps,
			perRowSteps: row.perRowSteps,
			meanBatchRows: steps === 0 ? 0 : row.batchRows / steps,
			meanLogprob: row.request.settings.logprobs === null ? null : -0.61,
			recordedTokens: row.details.length,
			settings: { ...row.request.settings, seed: row.seed },
		};
	}

	#emit(row: Row, body: StreamEventBody) {
		row.outbox.push({ requestId: row.request.requestId, sequence: row.sequence++, body });
		const isLast = body.kind === 'finished' || body.kind === 'failed';
		if (isLast || !this.#scenario.isExactRate) sendOut(row);
	}
}

function sendOut(row: Row) {
	if (row.outbox.length > 0) row.request.emit(row.outbox);
	row.outbox = [];
}

/** A request of another program and one of the benchmark, both answering. */
function visitors(contextTokens: number): RowStatus[] {
	return (['server', 'benchmark'] as const).map((source, i) => ({
		requestId: `visitor-${source}`,
		source,
		conversationId: null,
		answerId: null,
		phase: 'decoding',
		ahead: 0,
		prefillDoneTokens: 210,
		promptTokens: 210,
		cachedTokens: 0,
		answerTokens: 64,
		kvCacheTokens: 274,
		contextTokens,
		gate: { path: 'fused', reasons: [], causedByConversationId: null, sinceStep: 12 },
		perRowMs: null,
		decodeTokS: 31.5 - i,
		ttftMs: 140,
		itlMsP50: 31,
		itlMsP95: 40,
	}));
}

/** Tokens of the answer and of its thinking, those from before included. */
function tokensOf({ request: { script, before }, sent }: Row) {
	const thought = Math.min(sent, script.thinking.length);
	return {
		answerTokens: before.answerTokens + sent - thought,
		thinkingTokens: before.thinkingTokens + thought,
	};
}

type Written = Pick<EndedAnswer, 'text' | 'thinking'>;

function written({ request: { script }, sent }: Row): Written {
	const thought = script.thinking.length;
	return {
		thinking: script.thinking.slice(0, sent).join(''),
		text: script.answer.slice(0, Math.max(0, sent - thought)).join(''),
	};
}

function needsOf(settings: SamplingSettings): PathReason[] {
	const needs: [boolean, PathReason][] = [
		[settings.structuredOutput !== null, 'structuredMask'],
		[settings.logprobs !== null, 'logprobs'],
		[settings.logitBias.length > 0, 'tokenBias'],
		[settings.repetitionPenalty !== 1, 'historyPenalty'],
	];
	return needs.filter(([isNeeded]) => isNeeded).map(([, reason]) => reason);
}

function detailOf(text: string, index: number, settings: SamplingSettings, isForced: boolean): TokenDetail {
	const detail = { token: 1000 + index, text, isForced, bias: null };
	if (isForced) return { ...detail, logprob: null, alternatives: [] };
	// From the token's place, so that runs are alike.
	const logprob = -(((index * 37) % 100) / 100) * 4;
	const alternatives = Array.from({ length: settings.logprobs ?? 0 }, (_, rank) => ({
		token: rank === 0 ? detail.token : 2000 + rank,
		text: rank === 0 ? text : ` other${rank}`,
		logprob: rank === 0 ? logprob : logprob - rank,
	}));
	const bias = settings.wantsBiasTrace
		? { unbiasedLikeliest: ' London', logprobWith: logprob, logprobWithout: logprob - 2 }
		: null;
	return { ...detail, logprob, alternatives, bias };
}

const failureDetail: Partial<Record<ErrorCode, string>> = {
	badLogits: 'row 0: NaN in logits',
	engineFault: 'the backend failed in a decode step: scripted',
	grammarRefused: 'at /properties/name/format: the format "x" is not known',
	tooLarge: 'it needs 9.0 GiB, and there can be 7.5 GiB at most',
};

const memory = {
	modelBytes: 538_000_000,
	kvCacheBytes: 94_371_840,
	activeBytes: 640_000_000,
	peakBytes: 702_000_000,
	limitBytes: 8_053_063_680,
	snapshotBytes: 20_971_520,
	prefillBytes: 0,
	reservedBytes: 268_435_456,
	kvBytesPerToken: 23_040,
	freeBytes: 2_147_483_648,
};
