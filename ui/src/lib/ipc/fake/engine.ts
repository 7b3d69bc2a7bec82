import type {
	EnginePhase,
	EngineStatus,
	FinishReason,
	GateMode,
	GatePath,
	Receipt,
	RowStatus,
	SamplingSettings,
	StepBar,
	StreamEvent,
	StreamEventBody,
} from '../wire';
import type { Scenario } from './scenarios';

export interface ScriptedRequest {
	requestId: string;
	conversationId: string;
	settings: SamplingSettings;
	tokens: string[];
	promptTokens: number;
	/** Called once, when the answer has ended. */
	onEnd(text: string, reason: FinishReason, receipt: Receipt): void;
	emit(events: StreamEvent[]): void;
}

interface Row {
	request: ScriptedRequest;
	phase: RowStatus['phase'];
	readTokens: number;
	sent: number;
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
	#scenario: Scenario;
	#rows: Row[] = [];
	#steps = 0;
	#fusedSteps = 0;
	#recent: StepBar[] = [];
	#watchers: ((status: EngineStatus) => void)[] = [];

	constructor(scenario: Scenario) {
		this.#scenario = scenario;
		this.phase =
			scenario.engine === 'failed'
				? { kind: 'failed', code: 'engineFailed', detail: 'the engine thread panicked: scripted' }
				: { kind: scenario.engine };
		setInterval(() => this.#step(), scenario.stepMs);
		setInterval(() => this.#report(), 250);
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

	submit(request: ScriptedRequest) {
		const row: Row = {
			request,
			phase: 'queued',
			readTokens: 0,
			sent: 0,
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

	textSoFar(requestId: string): string | null {
		const row = this.#rows.find((other) => other.request.requestId === requestId);
		return row ? row.request.tokens.slice(0, row.sent).join('') : null;
	}

	status(): EngineStatus {
		const decoding = this.#rows.filter((row) => row.phase === 'decoding');
		const perRow = decoding.filter((row) => row.gate?.path === 'perRow').length;
		const stepS = this.#scenario.stepMs / 1000;
		const isReady = this.phase.kind === 'ready';
		const waits = decoding.length === 0 ? 0 : (perRow < decoding.length ? 1 : 0) + perRow;
		return {
			phase: this.phase,
			model: isReady ? model : null,
			gateMode: this.gateMode,
			rows: this.#rows.map((row, i) => this.#rowStatus(row, i)),
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
				waitsPerStep: waits,
				hostReadsPerStep: waits,
				recent: this.#recent,
			},
			memory: isReady ? memory : null,
		};
	}

	#rowStatus(row: Row, index: number): RowStatus {
		const { request } = row;
		return {
			requestId: request.requestId,
			conversationId: request.conversationId,
			phase: row.phase,
			ahead: this.#rows.slice(0, index).filter((other) => other.phase === 'queued').length,
			prefillDoneTokens: row.readTokens,
			promptTokens: request.promptTokens,
			answerTokens: row.sent,
			kvCacheTokens: row.readTokens + row.sent,
			contextTokens: 2048,
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
		if (row.readTokens === promptTokens) row.phase = 'decoding';
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
		rows.forEach((row, i) => this.#decodeRow(row, gates[i] as GatePath, rows.length));
	}

	#decodeRow(row: Row, gate: GatePath, batchRows: number) {
		if (row.gate?.path !== gate.path || row.gate.causedByConversationId !== gate.causedByConversationId) {
			row.gate = gate;
			this.#emit(row, { kind: 'path', path: gate });
		}
		row[gate.path === 'fused' ? 'fusedSteps' : 'perRowSteps'] += 1;
		row.batchRows += batchRows;
		row.ttftMs ??= performance.now() - row.startedAtMs;
		const delta = row.request.tokens[row.sent] ?? '';
		row.sent += 1;
		this.#emit(row, { kind: 'text', delta, answerTokens: row.sent });
		if (this.#scenario.answerFailsAfter === row.sent) return this.#fail(row);
		if (row.sent >= row.request.settings.maxTokens) this.#finish(row, 'maxTokens');
		else if (row.sent >= row.request.tokens.length) this.#finish(row, 'endOfTurn');
	}

	#gateOf(row: Row, rows: Row[]): GatePath {
		const inNeed = (other: Row) => other.request.settings.logprobs !== null;
		const cause = this.gateMode === 'strict' ? (rows.find(inNeed) ?? null) : null;
		const isOwn = inNeed(row);
		const isPerRow = isOwn || cause !== null;
		return {
			path: isPerRow ? 'perRow' : 'fused',
			reasons: isPerRow ? ['logprobs'] : [],
			causedByConversationId: isPerRow && !isOwn ? (cause?.request.conversationId ?? null) : null,
			sinceStep: this.#steps,
		};
	}

	#finish(row: Row, reason: FinishReason) {
		const receipt = this.#receipt(row);
		this.#leave(row);
		row.request.onEnd(row.request.tokens.slice(0, row.sent).join(''), reason, receipt);
		this.#emit(row, { kind: 'finished', reason, receipt });
	}

	#fail(row: Row) {
		const receipt = this.#receipt(row);
		this.#leave(row);
		row.request.onEnd(row.request.tokens.slice(0, row.sent).join(''), 'failed', receipt);
		this.#emit(row, { kind: 'failed', code: 'badLogits', detail: 'row 0: NaN in logits', receipt });
	}

	#leave(row: Row) {
		this.#rows = this.#rows.filter((other) => other !== row);
	}

	#receipt(row: Row): Receipt {
		const steps = row.fusedSteps + row.perRowSteps;
		return {
			ttftMs: row.ttftMs,
			decodeTokS: row.sent > 1 ? 1000 / this.#scenario.stepMs : null,
			itlMsP50: row.sent > 1 ? this.#scenario.stepMs : null,
			itlMsP95: row.sent > 1 ? this.#scenario.stepMs * 1.3 : null,
			promptTokens: row.request.promptTokens,
			answerTokens: row.sent,
			fusedSteps: row.fusedSteps,
			perRowSteps: row.perRowSteps,
			meanBatchRows: steps === 0 ? 0 : row.batchRows / steps,
			meanLogprob: row.request.settings.logprobs === null ? null : -0.61,
			settings: { ...row.request.settings, seed: row.request.settings.seed ?? '17402936581' },
		};
	}

	#emit(row: Row, body: StreamEventBody) {
		row.request.emit([{ requestId: row.request.requestId, sequence: row.sequence++, body }]);
	}
}

const model = {
	name: 'SmolLM2-135M-Instruct',
	architecture: 'llama',
	quantisation: '8-bit',
	computeDtype: 'float32',
	device: 'CPU',
	contextTokens: 2048,
	diskBytes: 144_811_456,
};

const memory = {
	modelBytes: 538_000_000,
	kvCacheBytes: 94_371_840,
	activeBytes: 640_000_000,
	peakBytes: 702_000_000,
};
