import { asFailure, type Backend, type CommandFailure } from '../ipc/backend';
import type { RemoteModel, RemoteModelDetails } from '../ipc/wire';

const searchAfterMs = 350;

/** A search of the hub, and the repository that is looked at. Asks the hub for nothing until something is typed. */
export class HubSearch {
	query = $state('');
	/** `null` until a search has come back. */
	results = $state.raw<RemoteModel[] | null>(null);
	isSearching = $state(false);
	failure = $state.raw<CommandFailure | null>(null);
	openRepo = $state<string | null>(null);
	/** Of [`openRepo`]; `null` while it is read. */
	details = $state.raw<RemoteModelDetails | null>(null);
	detailsFailure = $state.raw<CommandFailure | null>(null);
	#backend: Backend;
	#next = $state<string | null>(null);
	#timer: ReturnType<typeof setTimeout> | undefined;
	#turn = 0;

	constructor(backend: Backend) {
		this.#backend = backend;
	}

	get hasMore(): boolean {
		return this.#next !== null;
	}

	/** Takes what is typed; the search follows once typing has paused. */
	type(query: string) {
		this.query = query;
		clearTimeout(this.#timer);
		this.#timer = setTimeout(() => void this.search(), searchAfterMs);
	}

	/** Searches at once. Of two searches the later one counts, whichever comes back first. */
	async search(): Promise<void> {
		clearTimeout(this.#timer);
		const turn = ++this.#turn;
		const query = this.query.trim();
		this.openRepo = null;
		this.failure = null;
		this.isSearching = query !== '';
		if (query === '') {
			this.results = null;
			this.#next = null;
			return;
		}
		await this.#read(turn, query, null);
	}

	async more(): Promise<void> {
		if (this.isSearching || this.#next === null) return;
		this.isSearching = true;
		this.failure = null;
		await this.#read(this.#turn, this.query.trim(), this.#next);
	}

	/** Looks at a repository; its details are read anew each time. */
	async open(repo: string | null): Promise<void> {
		this.openRepo = repo;
		this.details = null;
		this.detailsFailure = null;
		if (repo === null) return;
		try {
			const details = await this.#backend.readRemoteModel(repo);
			if (this.openRepo === repo) this.details = details;
		} catch (thrown) {
			if (this.openRepo === repo) this.detailsFailure = asFailure(thrown);
		}
	}

	async #read(turn: number, query: string, next: string | null): Promise<void> {
		try {
			const page = await this.#backend.searchModels(query, next);
			if (turn !== this.#turn) return;
			this.results = next === null ? page.models : [...(this.results ?? []), ...page.models];
			this.#next = page.next;
		} catch (thrown) {
			if (turn !== this.#turn) return;
			this.failure = asFailure(thrown);
		}
		this.isSearching = false;
	}
}
