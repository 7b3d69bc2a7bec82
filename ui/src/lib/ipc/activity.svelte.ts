import type { Backend } from './backend';

/** A call is said on screen once it has taken this long. */
const slowAfterMs = 1500;

/** What the app is doing while a call runs; `null` for calls that are never waited for, or where the screen says so. */
const activityOf: Record<keyof Backend, string | null> = {
	startApp: 'Opening your history',
	listConversations: 'Reading the list of conversations',
	searchConversations: 'Searching your conversations',
	createConversation: 'Making a new conversation',
	openConversation: 'Opening the conversation',
	renameConversation: 'Renaming the conversation',
	pinConversation: 'Pinning the conversation',
	unpinConversation: 'Unpinning the conversation',
	deleteConversation: 'Deleting the conversation',
	restoreConversation: 'Bringing the conversation back',
	closeConversation: null,
	selectVersion: 'Opening the other version',
	readTokenDetails: 'Reading the token details',
	saveDraft: 'Saving your draft',
	writeConversationSettings: 'Saving this tab’s settings',
	writeAppSettings: 'Saving the settings',
	startGeneration: 'Saving your message and starting the answer',
	regenerateAnswer: 'Starting another version',
	stopGeneration: 'Stopping the answer',
	watchEngine: null,
	setGateMode: 'Switching the batch mode',
	setOverlap: 'Switching the overlap',
	restartEngine: 'Restarting the engine',
	reportUiFailure: null,
	readLicences: 'Reading the licences',
	listModels: 'Reading the list of models',
	watchModels: null,
	checkModelFit: 'Reckoning the memory that the model needs',
	loadModel: 'Starting to load the model',
	cancelModelLoad: 'Stopping the load',
	unloadModel: 'Unloading the model',
	deleteModel: 'Deleting the model',
	pickModelFolder: null,
	pickGgufFile: null,
	importModelFolder: 'Looking at the folder',
	importGguf: 'Looking at the file',
	cancelImport: 'Cancelling the import',
	dismissImport: null,
	searchModels: null,
	readRemoteModel: null,
	startDownload: 'Starting the download',
	pauseDownload: 'Pausing the download',
	resumeDownload: 'Resuming the download',
	cancelDownload: 'Cancelling the download',
	dismissDownload: null,
	readHubSettings: 'Reading the hub settings',
	writeHubSettings: 'Saving the hub settings',
	saveScroll: null,
	editMessage: 'Saving your message and starting the answer',
	continueAnswer: 'Letting the answer go on',
	branchAnswer: 'Starting another version',
	fanOut: 'Saving your message and starting the answers',
	keepAnswer: 'Keeping this answer',
	writeAnswerVersion: 'Saving your version',
	readVersions: 'Reading the versions',
	pickAttachments: null,
	attachFile: 'Reading the file',
	attachText: 'Attaching the text',
	removeAttachment: 'Removing the attachment',
	readAttachment: 'Reading the attachment',
	countTokens: null,
	watchFileDrops: null,
	pickExportFile: null,
	pickExportFolder: null,
	exportConversation: 'Writing the file',
	exportLibrary: 'Writing your conversations',
	readConversationMarkdown: 'Reading the conversation',
	pickImportFiles: null,
	importConversations: 'Reading the files',
	listRemoteServers: 'Reading the servers',
	saveRemoteServer: 'Saving the server',
	deleteRemoteServer: 'Removing the server',
	listRemoteModels: null,
	readLocalServer: 'Reading the server’s settings',
	writeLocalServer: 'Switching the server',
	renewLocalServerKey: 'Making another key',
	checkStructure: null,
	runBenchmark: null,
	cancelBenchmark: null,
	saveBenchmarkReport: 'Writing the report',
	readDiagnostics: 'Making the report',
	saveDiagnostics: 'Writing the report',
	noteAlive: null,
	showMenu: null,
};

interface PendingCall {
	key: number;
	label: string;
	startedAtMs: number;
}

/** Calls that have been running for long, so that waiting never looks like nothing. */
export class Activity {
	#pending = $state.raw<PendingCall[]>([]);
	#nextKey = 0;

	/** The oldest slow call in words, if any. */
	get slowest(): PendingCall | null {
		return this.#pending[0] ?? null;
	}

	async track<T>(label: string, call: Promise<T>): Promise<T> {
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
