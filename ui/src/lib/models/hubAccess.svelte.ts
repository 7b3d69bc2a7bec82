import { asFailure, type Backend, type CommandFailure } from '../ipc/backend';
import type { HubSettings, HubToken } from '../ipc/wire';

/** Where models are downloaded from, and what is typed to change it. The token never comes back. */
export class HubAccess {
	/** `null` until it has been read. */
	stored = $state.raw<HubSettings | null>(null);
	endpoint = $state('');
	proxy = $state('');
	/** A new token; empty keeps the one there is. */
	token = $state('');
	failure = $state.raw<CommandFailure | null>(null);
	isSaved = $state(false);
	#backend: Backend;

	constructor(backend: Backend) {
		this.#backend = backend;
	}

	async read(): Promise<void> {
		await this.#take(() => this.#backend.readHubSettings());
	}

	/** Saves what is typed. */
	async save(): Promise<void> {
		const token = this.token.trim();
		await this.#write(token === '' ? null : { kind: 'set', token });
	}

	async forgetToken(): Promise<void> {
		await this.#write({ kind: 'forget' });
	}

	async #write(token: HubToken | null): Promise<void> {
		this.isSaved = false;
		const proxy = this.proxy.trim() || null;
		const change = { endpoint: this.endpoint.trim(), proxy, token };
		this.isSaved = await this.#take(() => this.#backend.writeHubSettings(change));
	}

	async #take(call: () => Promise<HubSettings>): Promise<boolean> {
		this.failure = null;
		try {
			const stored = await call();
			this.stored = stored;
			this.endpoint = stored.endpoint;
			this.proxy = stored.proxy ?? '';
			this.token = '';
			return true;
		} catch (thrown) {
			this.failure = asFailure(thrown);
			return false;
		}
	}
}
