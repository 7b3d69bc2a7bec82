import { asFailure, type Backend, type CommandFailure } from '../ipc/backend';
import type { ModelEntry, ModelLoad, ModelsStatus, Unloaded } from '../ipc/wire';
import { HubAccess } from './hubAccess.svelte';
import { HubSearch } from './hubSearch.svelte';
import { ImportFlow } from './importFlow.svelte';
import { changesBetween, type StatusChanges } from './statusChanges';

/** What is open below a model of the list. */
export interface OpenPanel {
	modelId: string;
	kind: 'load' | 'delete';
}

/** Models that are here, or those that can be got. */
export type ModelsSection = 'here' | 'more';

/** Models on this computer and what is going on with them, as Rust reports it. */
export class ModelsState {
	/** `null` until the list has been read. */
	entries = $state.raw<ModelEntry[] | null>(null);
	status = $state.raw<ModelsStatus | null>(null);
	/** Why the list could not be read. */
	listFailure = $state.raw<CommandFailure | null>(null);
	panel = $state.raw<OpenPanel | null>(null);
	/** Part of the screen that is shown. */
	section = $state<ModelsSection>('here');
	readonly backend: Backend;
	readonly hub: HubSearch;
	readonly access: HubAccess;
	readonly importing: ImportFlow;
	#onNews: (news: StatusChanges) => void;
	#onFailure: (thrown: unknown) => void;

	constructor(
		backend: Backend,
		calls: { onNews: (news: StatusChanges) => void; onFailure: (thrown: unknown) => void },
	) {
		this.backend = backend;
		this.hub = new HubSearch(backend);
		this.access = new HubAccess(backend);
		this.importing = new ImportFlow(backend);
		this.#onNews = calls.onNews;
		this.#onFailure = calls.onFailure;
	}

	/** Starts watching, for as long as the window is open. */
	start() {
		this.backend
			.watchModels((status) => void this.#take(status))
			.catch((thrown: unknown) => this.#onFailure(thrown));
	}

	async refresh(): Promise<void> {
		try {
			this.entries = await this.backend.listModels();
			this.listFailure = null;
		} catch (thrown) {
			this.listFailure = asFailure(thrown);
		}
	}

	/** The model that answers now. */
	get loaded(): ModelEntry | null {
		return this.entryOf(this.status?.loadedModelId ?? null);
	}

	get load(): ModelLoad | null {
		return this.status?.load ?? null;
	}

	/** Models that can be loaded. */
	get usable(): ModelEntry[] {
		return (this.entries ?? []).filter(({ problem }) => problem === null);
	}

	/** Downloads that want to be looked at: those under way and those that failed. */
	get pendingDownloads(): number {
		return (this.status?.downloads ?? []).filter(({ phase }) => phase.kind !== 'done').length;
	}

	entryOf(modelId: string | null): ModelEntry | null {
		return this.entries?.find((entry) => entry.modelId === modelId) ?? null;
	}

	nameOf(modelId: string): string {
		return this.entryOf(modelId)?.name ?? modelId;
	}

	/** Opens the load panel of a model. */
	ask(modelId: string) {
		this.section = 'here';
		this.panel = { modelId, kind: 'load' };
	}

	/** Begins a load. Resolves with whether it has begun. */
	async begin(modelId: string, contextTokens: number | null, despiteFit: boolean): Promise<boolean> {
		const hasBegun = await this.attempt(() => this.backend.loadModel(modelId, contextTokens, despiteFit));
		if (hasBegun && this.panel?.modelId === modelId) this.panel = null;
		return hasBegun;
	}

	async cancelLoad(): Promise<void> {
		await this.attempt(() => this.backend.cancelModelLoad());
	}

	/** Resolves with what came back, or `null` if it did not work. */
	async unload(): Promise<Unloaded | null> {
		let unloaded: Unloaded | null = null;
		await this.attempt(async () => void (unloaded = await this.backend.unloadModel()));
		return unloaded;
	}

	/** Deletes a model, unloading it first if it is loaded. Resolves with whether it worked. */
	async delete(modelId: string): Promise<boolean> {
		const isDeleted = await this.attempt(async () => {
			if (this.status?.loadedModelId === modelId) await this.backend.unloadModel();
			await this.backend.deleteModel(modelId);
		});
		if (isDeleted) {
			this.panel = null;
			await this.refresh();
		}
		return isDeleted;
	}

	/** Does `work`; says what fails. Resolves with whether it worked. */
	async attempt(work: () => Promise<unknown>): Promise<boolean> {
		try {
			await work();
			return true;
		} catch (thrown) {
			this.#onFailure(thrown);
			return false;
		}
	}

	async #take(status: ModelsStatus): Promise<void> {
		const news = changesBetween(this.status, status);
		this.status = status;
		// Before the news is told: it names models that may be new.
		if (news.isListStale) await this.refresh();
		this.#onNews(news);
	}
}
