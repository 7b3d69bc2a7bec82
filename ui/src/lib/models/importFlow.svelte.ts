import { asFailure, type Backend, type CommandFailure } from '../ipc/backend';
import type { ImportMode } from '../ipc/wire';

/** Bringing a folder or a GGUF file in: picked, asked about, begun, or refused. */
export class ImportFlow {
	/** A folder that was picked and waits for a decision. */
	folder = $state<string | null>(null);
	/** Why the latest import did not begin. */
	failure = $state.raw<CommandFailure | null>(null);
	isStarting = $state(false);
	#backend: Backend;

	constructor(backend: Backend) {
		this.#backend = backend;
	}

	async pickFolder(): Promise<void> {
		await this.#try(async () => {
			this.folder = await this.#backend.pickModelFolder();
		});
	}

	/** A GGUF file is always converted into Braid's folder: there is nothing to decide. */
	async pickGguf(): Promise<void> {
		this.folder = null;
		await this.#try(async () => {
			const path = await this.#backend.pickGgufFile();
			if (path !== null) await this.#backend.importGguf(path);
		});
	}

	async importFolder(mode: ImportMode): Promise<void> {
		const { folder } = this;
		if (folder === null) return;
		await this.#try(() => this.#backend.importModelFolder(folder, mode));
		this.folder = null;
	}

	async #try(work: () => Promise<unknown>): Promise<void> {
		this.failure = null;
		this.isStarting = true;
		try {
			await work();
		} catch (thrown) {
			this.failure = asFailure(thrown);
		}
		this.isStarting = false;
	}
}
