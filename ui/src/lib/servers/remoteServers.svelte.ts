import { asFailure, type Backend, type CommandFailure } from '../ipc/backend';
import type { RemoteServer, RemoteServerChange, RemoteServerModel } from '../ipc/wire';

/** What a server said when it was asked for its models. */
export type ServerAnswer =
	| { kind: 'asking' }
	| { kind: 'models'; models: readonly RemoteServerModel[] }
	| { kind: 'failed'; failure: CommandFailure };

/** The servers that were set up, and what each said last. */
export class RemoteServers {
	all = $state.raw<readonly RemoteServer[]>([]);
	/** Why the list could not be read. */
	failure = $state.raw<CommandFailure | null>(null);
	/** By server. */
	answers = $state.raw<Readonly<Record<string, ServerAnswer>>>({});
	isRead = $state(false);
	#backend: Backend;

	constructor(backend: Backend) {
		this.#backend = backend;
	}

	byId(id: string): RemoteServer | null {
		return this.all.find((server) => server.id === id) ?? null;
	}

	/** Reads the list unless that was done. */
	async read(): Promise<void> {
		if (this.isRead) return;
		try {
			this.all = await this.#backend.listRemoteServers();
			this.failure = null;
			this.isRead = true;
		} catch (thrown) {
			this.failure = asFailure(thrown);
		}
	}

	/** Rejects with why it was refused. */
	async save(change: RemoteServerChange): Promise<RemoteServer> {
		const saved = await this.#backend.saveRemoteServer(change);
		this.isRead = false;
		await this.read();
		void this.ask(saved.id);
		return saved;
	}

	/** Rejects with why it could not be removed. */
	async remove(id: string): Promise<void> {
		await this.#backend.deleteRemoteServer(id);
		this.isRead = false;
		await this.read();
	}

	/** Asks a server for its models: a test of its address and key. */
	async ask(id: string): Promise<void> {
		this.#note(id, { kind: 'asking' });
		try {
			this.#note(id, { kind: 'models', models: await this.#backend.listRemoteModels(id) });
		} catch (thrown) {
			this.#note(id, { kind: 'failed', failure: asFailure(thrown) });
		}
	}

	#note(id: string, answer: ServerAnswer) {
		this.answers = { ...this.answers, [id]: answer };
	}
}
