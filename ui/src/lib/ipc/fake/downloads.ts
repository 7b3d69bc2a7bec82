import { CommandFailure } from '../backend';
import type {
	DownloadStatus,
	HubSettings,
	HubSettingsChange,
	RemoteModelDetails,
	RemoteModelPage,
} from '../wire';
import { starter, type Shelved } from './modelShelf';
import { detailsOf, remotes } from './remoteShelf';
import type { Scenario } from './scenarios';

const ticks = 20;
const pageModels = 3;

interface Surroundings {
	onChange: () => void;
	/** Puts what was downloaded on the shelf; returns its id. */
	onDone: (shelved: Shelved) => string;
	/** Id of the model of this name that is on the computer. */
	has: (name: string) => string | null;
}

/** The scripted hub, and what is fetched from it. */
export class ScriptedDownloads {
	all: DownloadStatus[] = [];
	settings: HubSettings = {
		endpoint: 'https://huggingface.co',
		proxy: null,
		hasToken: false,
		folder: '/home/me/.cache/huggingface/hub',
	};
	#scenario: Scenario;
	#around: Surroundings;
	#failsLeft: Set<string> = new Set();
	#nextId = 1;

	constructor(scenario: Scenario, around: Surroundings) {
		this.#scenario = scenario;
		this.#around = around;
		setInterval(() => this.#tick(), scenario.downloadMs / ticks);
	}

	search(query: string, next: string | null): RemoteModelPage {
		this.#reach();
		const words = query.toLowerCase().split(/\s+/);
		const found = remotes
			.map(({ model }) => model)
			.filter(({ repo }) => words.every((word) => repo.toLowerCase().includes(word)));
		const from = Number(next ?? 0);
		const to = from + pageModels;
		return { models: found.slice(from, to), next: to < found.length ? String(to) : null };
	}

	read(repo: string): RemoteModelDetails {
		this.#reach();
		const found = remotes.find(({ model }) => model.repo === repo);
		if (!found) throw new CommandFailure('hubNotFound', `${repo}: status 404`);
		return detailsOf(found, this.#around.has(repo.split('/')[1] ?? repo));
	}

	start(repo: string): string {
		const details = this.read(repo);
		const isGated = remotes.some(({ model }) => model.repo === repo && model.isGated);
		if (isGated && !this.settings.hasToken) {
			throw new CommandFailure('hubAccess', `${repo}: status 403, its terms are not accepted`);
		}
		const downloadId = `download-${this.#nextId++}`;
		if (this.#scenario.downloadFails) this.#failsLeft.add(downloadId);
		this.all = [
			...this.all,
			{
				downloadId,
				repo,
				phase: { kind: 'running' },
				doneBytes: 0,
				totalBytes: details.downloadBytes,
				bytesPerS: 0,
				leftMs: null,
				doneFiles: 0,
				files: details.files.length,
			},
		];
		this.#around.onChange();
		return downloadId;
	}

	pause(downloadId: string) {
		this.#change(downloadId, { phase: { kind: 'paused' }, bytesPerS: 0, leftMs: null });
	}

	resume(downloadId: string) {
		this.#reach();
		this.#change(downloadId, { phase: { kind: 'running' } });
	}

	remove(downloadId: string) {
		this.#find(downloadId);
		this.all = this.all.filter((other) => other.downloadId !== downloadId);
		this.#around.onChange();
	}

	writeSettings({ endpoint, proxy, token }: HubSettingsChange): HubSettings {
		if (!/^https?:\/\//.test(endpoint)) {
			throw new CommandFailure('invalidSetting', `endpoint: "${endpoint}" is no address of the web`);
		}
		const hasToken = token === null ? this.settings.hasToken : token.kind === 'set';
		this.settings = { ...this.settings, endpoint, proxy, hasToken };
		return this.settings;
	}

	#tick() {
		for (const { downloadId, phase, repo } of this.all) {
			if (phase.kind === 'running') this.#fetch(downloadId);
			else if (phase.kind === 'verifying') {
				const modelId = this.#around.onDone(this.#shelvedOf(repo));
				this.#change(downloadId, { phase: { kind: 'done', modelId } });
			}
		}
	}

	#fetch(downloadId: string) {
		const { doneBytes, totalBytes, files } = this.#find(downloadId);
		const done = Math.min(totalBytes, doneBytes + totalBytes / ticks);
		const bytesPerS = totalBytes / (this.#scenario.downloadMs / 1000);
		const code = this.#scenario.downloadFails;
		if (code && this.#failsLeft.has(downloadId) && done > totalBytes / 3) {
			this.#failsLeft.delete(downloadId);
			const problem = { code, detail: 'connection reset by peer after 3 attempts (scripted)' };
			this.#change(downloadId, { phase: { kind: 'failed', problem }, bytesPerS: 0, leftMs: null });
			return;
		}
		this.#change(downloadId, {
			doneBytes: done,
			bytesPerS,
			leftMs: ((totalBytes - done) / bytesPerS) * 1000,
			doneFiles: Math.floor((done / totalBytes) * files),
			...(done >= totalBytes && { phase: { kind: 'verifying' }, bytesPerS: 0, leftMs: null }),
		});
	}

	#shelvedOf(repo: string): Shelved {
		const found = remotes.find(({ model }) => model.repo === repo);
		if (!found) return starter;
		const { architecture, licence, quantisation } = found.details;
		return {
			kvCacheBytesPerToken: found.kvCacheBytesPerToken,
			entry: {
				modelId: `hub:${repo}`,
				name: repo.split('/')[1] ?? repo,
				path: `${this.settings.folder}/models--${repo.replace('/', '--')}`,
				origin: { kind: 'hub', repo, commit: detailsOf(found, null).commit },
				diskBytes: found.weightsBytes,
				architecture,
				quantisation,
				contextTokens: found.contextTokens,
				licence,
				problem: null,
				isDeletable: true,
			},
		};
	}

	#change(downloadId: string, changes: Partial<DownloadStatus>) {
		const before = this.#find(downloadId);
		this.all = this.all.map((other) => (other === before ? { ...other, ...changes } : other));
		this.#around.onChange();
	}

	#find(downloadId: string): DownloadStatus {
		const found = this.all.find((other) => other.downloadId === downloadId);
		if (!found) throw new CommandFailure('downloadNotFound', `download ${downloadId}`);
		return found;
	}

	#reach() {
		if (!this.#scenario.isOffline) return;
		throw new CommandFailure('hubUnreachable', `${this.settings.endpoint}: no route to host (scripted)`);
	}
}
