import { asFailure, type Backend, type CommandFailure } from '../ipc/backend';
import type { EngineStatus, RowStatus } from '../ipc/wire';
import { settle, type Settled } from './pathSettler';

/** Snapshots come at least once a second; longer silence is said on screen. */
const silentAfterMs = 5000;

/**
 * The one source of every figure about the engine: overlay, settings panel and the marks on tabs. Paths of rows are
 * those that have settled.
 */
export class EngineWatch {
	status = $state.raw<EngineStatus | null>(null);
	/** Seconds since the last snapshot, once that is longer than it should be. */
	silentForS = $state<number | null>(null);
	failure = $state.raw<CommandFailure | null>(null);
	#backend: Backend;
	#lastAtMs = 0;
	#paths: Record<string, Settled> = {};

	constructor(backend: Backend) {
		this.#backend = backend;
	}

	/** Starts watching. Returns how to stop the clock. */
	start(): () => void {
		this.#lastAtMs = Date.now();
		this.#backend
			.watchEngine((status) => {
				this.#lastAtMs = Date.now();
				this.status = { ...status, rows: this.#settle(status.rows) };
				this.silentForS = null;
			})
			.catch((thrown: unknown) => (this.failure = asFailure(thrown)));
		const clock = setInterval(() => {
			const silentMs = Date.now() - this.#lastAtMs;
			this.silentForS = silentMs > silentAfterMs ? Math.floor(silentMs / 1000) : null;
		}, 1000);
		return () => clearInterval(clock);
	}

	rowOf(conversationId: string): RowStatus | null {
		return this.status?.rows.find((row) => row.conversationId === conversationId) ?? null;
	}

	#settle(rows: RowStatus[]): RowStatus[] {
		const before = this.#paths;
		this.#paths = {};
		return rows.map((row) => {
			if (row.gate === null) return row;
			const settled = settle(before[row.requestId] ?? null, row.gate, this.#lastAtMs);
			this.#paths[row.requestId] = settled;
			return { ...row, gate: settled.shown };
		});
	}

	get isReady(): boolean {
		return this.status?.phase.kind === 'ready';
	}
}
