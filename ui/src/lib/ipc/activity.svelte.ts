import type { WordKey } from '../i18n/catalogue';
import type { Backend } from './backend';

/** A call is said on screen once it has taken this long. */
const slowAfterMs = 1500;

/** What the app is doing while a call runs; `null` for calls that are never waited for, or where the screen says so. */
const activityOf: Record<keyof Backend, WordKey | null> = {
	startApp: 'activity:startApp',
	listConversations: 'activity:listConversations',
	searchConversations: 'activity:searchConversations',
	createConversation: 'activity:createConversation',
	openConversation: 'activity:openConversation',
	renameConversation: 'activity:renameConversation',
	pinConversation: 'activity:pinConversation',
	unpinConversation: 'activity:unpinConversation',
	deleteConversation: 'activity:deleteConversation',
	restoreConversation: 'activity:restoreConversation',
	closeConversation: null,
	selectVersion: 'activity:selectVersion',
	readTokenDetails: 'activity:readTokenDetails',
	saveDraft: 'activity:saveDraft',
	writeConversationSettings: 'activity:writeConversationSettings',
	writeAppSettings: 'activity:writeAppSettings',
	startGeneration: 'activity:startGeneration',
	regenerateAnswer: 'activity:regenerateAnswer',
	stopGeneration: 'activity:stopGeneration',
	watchEngine: null,
	setGateMode: 'activity:setGateMode',
	setOverlap: 'activity:setOverlap',
	restartEngine: 'activity:restartEngine',
	reportUiFailure: null,
	readLicences: 'activity:readLicences',
	listModels: 'activity:listModels',
	watchModels: null,
	checkModelFit: 'activity:checkModelFit',
	loadModel: 'activity:loadModel',
	cancelModelLoad: 'activity:cancelModelLoad',
	unloadModel: 'activity:unloadModel',
	deleteModel: 'activity:deleteModel',
	pickModelFolder: null,
	pickGgufFile: null,
	importModelFolder: 'activity:importModelFolder',
	importGguf: 'activity:importGguf',
	cancelImport: 'activity:cancelImport',
	dismissImport: null,
	searchModels: null,
	readRemoteModel: null,
	startDownload: 'activity:startDownload',
	pauseDownload: 'activity:pauseDownload',
	resumeDownload: 'activity:resumeDownload',
	cancelDownload: 'activity:cancelDownload',
	dismissDownload: null,
	readHubSettings: 'activity:readHubSettings',
	writeHubSettings: 'activity:writeHubSettings',
	saveScroll: null,
	editMessage: 'activity:editMessage',
	continueAnswer: 'activity:continueAnswer',
	branchAnswer: 'activity:branchAnswer',
	fanOut: 'activity:fanOut',
	keepAnswer: 'activity:keepAnswer',
	writeAnswerVersion: 'activity:writeAnswerVersion',
	readVersions: 'activity:readVersions',
	pickAttachments: null,
	attachFile: 'activity:attachFile',
	attachText: 'activity:attachText',
	removeAttachment: 'activity:removeAttachment',
	readAttachment: 'activity:readAttachment',
	countTokens: null,
	watchFileDrops: null,
	pickExportFile: null,
	pickExportFolder: null,
	exportConversation: 'activity:exportConversation',
	exportLibrary: 'activity:exportLibrary',
	readConversationMarkdown: 'activity:readConversationMarkdown',
	pickImportFiles: null,
	importConversations: 'activity:importConversations',
	listRemoteServers: 'activity:listRemoteServers',
	saveRemoteServer: 'activity:saveRemoteServer',
	deleteRemoteServer: 'activity:deleteRemoteServer',
	listRemoteModels: null,
	readLocalServer: 'activity:readLocalServer',
	writeLocalServer: 'activity:writeLocalServer',
	renewLocalServerKey: 'activity:renewLocalServerKey',
	checkStructure: null,
	runBenchmark: null,
	cancelBenchmark: null,
	saveBenchmarkReport: 'activity:saveBenchmarkReport',
	readDiagnostics: 'activity:readDiagnostics',
	saveDiagnostics: 'activity:saveDiagnostics',
	noteAlive: null,
	showMenu: null,
};

interface PendingCall {
	key: number;
	label: WordKey;
	startedAtMs: number;
}

/** Calls that have been running for long, so that waiting never looks like nothing. */
export class Activity {
	#pending = $state.raw<PendingCall[]>([]);
	#nextKey = 0;

	/** The oldest slow call, if any. */
	get slowest(): PendingCall | null {
		return this.#pending[0] ?? null;
	}

	async track<T>(label: WordKey, call: Promise<T>): Promise<T> {
		const entry = { key: this.#nextKey++, label, startedAtMs: Date.now() };
		const timer = setTimeout(() => (this.#pending = [...this.#pending, entry]), slowAfterMs);
		try {
			return await call;
		} finally {
			clearTimeout(timer);
			this.#pending = this.#pending.filter((other) => other.key !== entry.key);
		}
	}
}

/** The same backend, with every slow call reported to `activity`. */
export function withActivity(backend: Backend, activity: Activity): Backend {
	const watched: Record<string, unknown> = {};
	for (const [name, label] of Object.entries(activityOf)) {
		const call = backend[name as keyof Backend] as (...args: unknown[]) => Promise<unknown>;
		watched[name] =
			label === null
				? call.bind(backend)
				: (...args: unknown[]) => activity.track(label, call.apply(backend, args));
	}
	return watched as unknown as Backend;
}
