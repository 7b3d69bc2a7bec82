import { asFailure, type Backend, type CommandFailure } from '../ipc/backend';
import type { LocalServerSettings, LocalServerStatus } from '../ipc/wire';

/** How often the status is read while it is on screen. */
const readEveryMs = 2000;

/** The server for other programs of this computer. */
export class LocalServer {
	status = $state.raw<LocalServerStatus | null>(null);
	failure = $state.raw<CommandFailure | null>(null);
	isBusy = $state(false);
	#backend: Backend;

	constructor(backend: Backend) {
		this.#backend = backend;
	}

	/** Keeps the status fresh. Returns how to stop. */
	watch(): () => void {
		const read = () => void this.#take(() => this.#backend.readLocalServer(), 'quiet');
		read();
		const clock = setInterval(read, readEveryMs);
		return () => clearInterval(clock);
	}

	async write(settings: LocalServerSettings): Promise<void> {
		await this.#take(() => this.#backend.writeLocalServer(settings));
	}

	async renewKey(): Promise<void> {
		await this.#take(() => this.#backend.renewLocalServerKey());
	}

	async #take(call: () => Promise<LocalServerStatus>, how: 'quiet' | 'said' = 'said'): Promise<void> {
		// A status that was asked for before a change must not undo the change on screen.
		if (this.isBusy) return;
		this.isBusy = how === 'said';
		const before = this.status;
		try {
			const status = await call();
			if (how === 'said' || this.status === before) this.status = status;
			if (how === 'said') this.failure = null;
		} catch (thrown) {
			this.failure = asFailure(thrown);
		} finally {
			if (how === 'said') this.isBusy = false;
		}
	}
}

/** A call of the server that can be pasted into a terminal. */
export function exampleCall(address: string, key: string, model: string): string {
	const body = { model, messages: [{ role: 'user', content: 'Hello' }] };
	return [
		`curl ${address}/chat/completions \\`,
		`  -H "Authorization: Bearer ${key}" \\`,
		`  -H "Content-Type: application/json" \\`,
		`  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`,
	].join('\n');
}
