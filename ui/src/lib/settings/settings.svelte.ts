import type { Backend } from '../ipc/backend';
import type { AppSettings } from '../ipc/wire';

const saveAfterMs = 250;

/** Settings of the app: read at start, replaced on every change, written whole shortly after. */
export class Settings {
	value = $state.raw<AppSettings>() as AppSettings;
	#backend: Backend;
	#onFailure: (thrown: unknown) => void;
	#timer: ReturnType<typeof setTimeout> | null = null;

	constructor(backend: Backend, stored: AppSettings, onFailure: (thrown: unknown) => void) {
		this.#backend = backend;
		this.value = stored;
		this.#onFailure = onFailure;
	}

	change(changes: Partial<AppSettings>) {
		this.value = { ...this.value, ...changes };
		if (this.#timer !== null) clearTimeout(this.#timer);
		this.#timer = setTimeout(() => void this.flush(), saveAfterMs);
	}

	async flush(): Promise<void> {
		if (this.#timer === null) return;
		clearTimeout(this.#timer);
		this.#timer = null;
		await this.#backend.writeAppSettings(this.value).catch(this.#onFailure);
	}
}
