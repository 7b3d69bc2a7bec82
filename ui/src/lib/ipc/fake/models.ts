import { CommandFailure } from '../backend';
import type { FitReport, ImportMode, ModelEntry, ModelImport, ModelsStatus, Unloaded } from '../wire';
import { ScriptedDownloads } from './downloads';
import type { ScriptedEngine } from './engine';
import { fitOf, several, starter, summaryOf, type Shelved } from './modelShelf';
import type { Scenario } from './scenarios';

const ticks = 20;

/** Models of the scripted computer: a load runs beside the model that answers, as the real one does. */
export class ScriptedModels {
	readonly downloads: ScriptedDownloads;
	#scenario: Scenario;
	#engine: ScriptedEngine;
	#shelf: Shelved[];
	#watchers: ((status: ModelsStatus) => void)[] = [];
	#running: Pick<
		ModelsStatus,
		'listRevision' | 'loadedModelId' | 'loadedContextTokens' | 'load' | 'loadFailure' | 'imports'
	>;
	#loadTimer: ReturnType<typeof setInterval> | undefined;
	#importTimers: Record<string, ReturnType<typeof setInterval>> = {};
	#nextImport = 1;

	constructor(scenario: Scenario, engine: ScriptedEngine) {
		this.#scenario = scenario;
		this.#engine = engine;
		this.#shelf = scenario.models === 'several' ? [...several] : scenario.models === 'none' ? [] : [starter];
		const first = this.#shelf[0]?.entry ?? null;
		this.#running = {
			listRevision: 1,
			loadedModelId: first?.modelId ?? null,
			loadedContextTokens: first?.contextTokens ?? null,
			load: null,
			loadFailure: null,
			imports: [],
		};
		if (!first) engine.unload('modelMissing');
		this.downloads = new ScriptedDownloads(scenario, {
			onChange: () => this.#report(),
			onDone: (shelved) => this.#shelve(shelved),
			has: (name) => this.#shelf.find(({ entry }) => entry.name === name)?.entry.modelId ?? null,
		});
	}

	watch(watcher: (status: ModelsStatus) => void) {
		this.#watchers.push(watcher);
		this.#report();
	}

	list(): ModelEntry[] {
		return this.#shelf.map(({ entry }) => entry);
	}

	fit(modelId: string, contextTokens: number | null): FitReport {
		const { entry, kvCacheBytesPerToken } = this.#usable(modelId);
		const modelContextTokens = entry.contextTokens ?? 2048;
		const { diskBytes } = entry;
		return fitOf(
			{ diskBytes, kvCacheBytesPerToken, modelContextTokens },
			contextTokens ?? modelContextTokens,
		);
	}

	load(modelId: string, contextTokens: number | null, despiteFit: boolean) {
		const shelved = this.#usable(modelId);
		const fit = this.fit(modelId, contextTokens);
		if (fit.verdict === 'tooLarge' && !despiteFit) {
			throw new CommandFailure(
				'modelTooLarge',
				`it needs ${fit.neededBytes} bytes, ${fit.freeBytes} are free`,
			);
		}
		this.cancelLoad();
		const { diskBytes } = shelved.entry;
		this.#running.load = { modelId, doneBytes: 0, totalBytes: diskBytes };
		this.#running.loadFailure = null;
		this.#loadTimer = setInterval(() => {
			const doneBytes = Math.min(diskBytes, (this.#running.load?.doneBytes ?? 0) + diskBytes / ticks);
			this.#running.load = { modelId, doneBytes, totalBytes: diskBytes };
			const code = this.#scenario.loadFails;
			if (code && doneBytes > diskBytes / 2) {
				const detail = 'model.layers.7.mlp.up_proj.scales is missing (scripted)';
				this.#endLoad({ loadFailure: { modelId, problem: { code, detail } } });
			} else if (doneBytes >= diskBytes) {
				this.#engine.replaceModel(summaryOf(shelved, fit.contextTokens));
				this.#endLoad({ loadedModelId: modelId, loadedContextTokens: fit.contextTokens });
			} else this.#report();
		}, this.#scenario.loadMs / ticks);
		this.#report();
	}

	cancelLoad() {
		this.#endLoad({});
	}

	unload(): Unloaded {
		const before = this.#shelf.find(({ entry }) => entry.modelId === this.#running.loadedModelId);
		this.#engine.unload('modelUnloaded');
		this.#running = { ...this.#running, loadedModelId: null, loadedContextTokens: null };
		this.#report();
		return { beforeBytes: (before?.entry.diskBytes ?? 0) + 12_582_912, afterBytes: 4_194_304 };
	}

	delete(modelId: string) {
		const { entry } = this.#find(modelId);
		if (modelId === this.#running.loadedModelId) throw new CommandFailure('internal', `${modelId} is loaded`);
		this.#shelf = this.#shelf.filter((shelved) => shelved.entry !== entry);
		this.#running.listRevision += 1;
		this.#report();
	}

	/** Imports a folder or a GGUF file, which takes as long as a download. */
	import(source: string, mode: ImportMode): string {
		const importId = `import-${this.#nextImport++}`;
		const name = (source.split('/').pop() ?? source).replace(/\.gguf$/, '');
		const { entry, kvCacheBytesPerToken } = starter;
		const totalBytes = mode === 'reference' ? 1 : 1_321_082_880;
		this.#running.imports = [
			...this.#running.imports,
			{ importId, source, doneBytes: 0, totalBytes, problem: null },
		];
		this.#importTimers[importId] = setInterval(() => {
			const running = this.#running.imports.find((other) => other.importId === importId);
			if (!running) return;
			if (this.#scenario.importRefused !== null) {
				clearInterval(this.#importTimers[importId]);
				const problem = { code: 'importRefused' as const, detail: this.#scenario.importRefused };
				return this.#changeImport(importId, { problem });
			}
			const doneBytes = Math.min(totalBytes, running.doneBytes + totalBytes / ticks);
			if (doneBytes < totalBytes) return this.#changeImport(importId, { doneBytes });
			this.dismissImport(importId);
			const isReference = mode === 'reference';
			this.#shelve({
				kvCacheBytesPerToken,
				entry: {
					...entry,
					modelId: `${isReference ? 'reference' : 'own'}:${name}`,
					name,
					path: isReference ? source : `/home/me/.local/share/braid/models/${name}`,
					origin: { kind: isReference ? 'reference' : 'own' },
					isDeletable: true,
				},
			});
		}, this.#scenario.downloadMs / ticks);
		this.#report();
		return importId;
	}

	/** Ends an import, or forgets one that failed. */
	dismissImport(importId: string) {
		clearInterval(this.#importTimers[importId]);
		this.#running.imports = this.#running.imports.filter((other) => other.importId !== importId);
		this.#report();
	}

	#changeImport(importId: string, changes: Partial<ModelImport>) {
		this.#running.imports = this.#running.imports.map((other) =>
			other.importId === importId ? { ...other, ...changes } : other,
		);
		this.#report();
	}

	#shelve(shelved: Shelved): string {
		const { modelId } = shelved.entry;
		this.#shelf = [...this.#shelf.filter(({ entry }) => entry.modelId !== modelId), shelved];
		this.#running.listRevision += 1;
		this.#report();
		return modelId;
	}

	#endLoad(changes: Partial<ModelsStatus>) {
		clearInterval(this.#loadTimer);
		this.#running = { ...this.#running, load: null, ...changes };
		this.#report();
	}

	#find(modelId: string): Shelved {
		const found = this.#shelf.find(({ entry }) => entry.modelId === modelId);
		if (!found) throw new CommandFailure('modelMissing', `no model is called ${modelId}`);
		return found;
	}

	#usable(modelId: string): Shelved {
		const found = this.#find(modelId);
		const { problem } = found.entry;
		if (problem) throw new CommandFailure(problem.code, problem.detail);
		return found;
	}

	#report() {
		const status = { ...this.#running, downloads: this.downloads.all };
		for (const watcher of this.#watchers) watcher(structuredClone(status));
	}
}
