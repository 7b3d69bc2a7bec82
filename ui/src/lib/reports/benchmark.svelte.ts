import { asFailure, type Backend, type CommandFailure } from '../ipc/backend';
import type { BenchmarkProgress, BenchmarkReport } from '../ipc/wire';

/** The benchmark: at most one at a time, and its latest report. */
export class Benchmark {
	isRunning = $state(false);
	isCancelling = $state(false);
	progress = $state.raw<BenchmarkProgress | null>(null);
	report = $state.raw<BenchmarkReport | null>(null);
	failure = $state.raw<CommandFailure | null>(null);
	/** Whether the latest one ended because an answer was asked for, which comes first. */
	wasInterrupted = $state(false);
	#backend: Backend;

	constructor(backend: Backend) {
		this.#backend = backend;
	}

	/** A report of before stays until there is another. */
	async start(): Promise<void> {
		if (this.isRunning) return;
		this.isRunning = true;
		this.failure = null;
		this.wasInterrupted = false;
		try {
			const report = await this.#backend.runBenchmark((progress) => (this.progress = progress));
			this.wasInterrupted = report === null && !this.isCancelling;
			this.report = report ?? this.report;
		} catch (thrown) {
			this.failure = asFailure(thrown);
		} finally {
			this.isRunning = false;
			this.isCancelling = false;
			this.progress = null;
		}
	}

	async cancel(): Promise<void> {
		this.isCancelling = true;
		await this.#backend.cancelBenchmark().catch((thrown: unknown) => (this.failure = asFailure(thrown)));
	}

	/** Asks where to, and writes the report there. Returns the place; `null` if none was chosen. */
	async save(): Promise<string | null> {
		const path = await this.#backend.pickExportFile('braid-benchmark.md');
		if (path !== null) await this.#backend.saveBenchmarkReport(path);
		return path;
	}
}
