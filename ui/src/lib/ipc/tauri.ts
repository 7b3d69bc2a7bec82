import { Channel, invoke } from '@tauri-apps/api/core';
import { CommandFailure, type Backend } from './backend';
import { commands } from './generated/bindings';
import type {
	CommandError,
	FitReport,
	HubSettings,
	HubSettingsChange,
	ImportMode,
	Licences,
	ModelEntry,
	ModelsStatus,
	RemoteModelDetails,
	RemoteModelPage,
	Unloaded,
} from './wire';

type Outcome<T> = { status: 'ok'; data: T } | { status: 'error'; error: CommandError };

async function unwrap<T>(call: Promise<Outcome<T>>): Promise<T> {
	const outcome = await call;
	if (outcome.status === 'ok') return outcome.data;
	throw new CommandFailure(outcome.error.code, outcome.error.message);
}

async function settle(call: Promise<Outcome<unknown>>): Promise<void> {
	await unwrap(call);
}

function channel<T>(onMessage: (message: T) => void): Channel<T> {
	const opened = new Channel<T>();
	opened.onmessage = onMessage;
	return opened;
}

/** The app's own backend: Rust, through Tauri. */
export function createBackend(): Backend {
	return {
		startApp: () => unwrap(commands.startApp()),
		listConversations: () => unwrap(commands.listConversations()),
		createConversation: () => unwrap(commands.createConversation()),
		openConversation: (id) => unwrap(commands.openConversation(id)),
		renameConversation: (id, title) => settle(commands.renameConversation(id, title)),
		deleteConversation: (id) => settle(commands.deleteConversation(id)),
		restoreConversation: (id) => settle(commands.restoreConversation(id)),
		closeConversation: (id) => settle(commands.closeConversation(id)),
		selectVersion: (id, messageId) => unwrap(commands.selectVersion(id, messageId)),
		readTokenDetails: (messageId) => unwrap(commands.readTokenDetails(messageId)),
		saveDraft: (id, text) => settle(commands.saveDraft(id, text)),
		writeConversationSettings: (id, settings) => settle(commands.writeConversationSettings(id, settings)),
		writeAppSettings: (settings) => settle(commands.writeAppSettings(settings)),
		startGeneration: (request, onEvents) => unwrap(commands.startGeneration(request, channel(onEvents))),
		regenerateAnswer: (request, onEvents) => unwrap(commands.regenerateAnswer(request, channel(onEvents))),
		stopGeneration: (requestId) => settle(commands.stopGeneration(requestId)),
		watchEngine: (onStatus) => settle(commands.watchEngine(channel(onStatus))),
		setGateMode: (mode) => settle(commands.setGateMode(mode)),
		setOverlap: (mode) => settle(commands.setOverlap(mode)),
		restartEngine: () => settle(commands.restartEngine()),
		reportUiFailure: (message) => settle(commands.reportUiFailure(message)),
		readLicences,
		...modelCalls,
	};
}

/** Calls a command by its name, for those without a generated function. */
async function call<T>(command: string, args: Record<string, unknown> = {}): Promise<T> {
	try {
		return await invoke<T>(command, args);
	} catch (thrown) {
		if (thrown instanceof Error) throw thrown;
		const { code, message } = thrown as CommandError;
		throw new CommandFailure(code, message);
	}
}

async function order(command: string, args: Record<string, unknown> = {}): Promise<void> {
	await call<unknown>(command, args);
}

const modelCalls = {
	listModels: () => call<ModelEntry[]>('list_models'),
	watchModels: (onStatus: (status: ModelsStatus) => void) =>
		order('watch_models', { updates: channel(onStatus) }),
	checkModelFit: (modelId: string, contextTokens: number | null) =>
		call<FitReport>('check_model_fit', { modelId, contextTokens }),
	loadModel: (modelId: string, contextTokens: number | null, despiteFit: boolean) =>
		order('load_model', { modelId, contextTokens, despiteFit }),
	cancelModelLoad: () => order('cancel_model_load'),
	unloadModel: () => call<Unloaded>('unload_model'),
	deleteModel: (modelId: string) => order('delete_model', { modelId }),
	pickModelFolder: () => call<string | null>('pick_model_folder'),
	pickGgufFile: () => call<string | null>('pick_gguf_file'),
	importModelFolder: (path: string, mode: ImportMode) => call<string>('import_model_folder', { path, mode }),
	importGguf: (path: string) => call<string>('import_gguf', { path }),
	cancelImport: (importId: string) => order('cancel_import', { importId }),
	dismissImport: (importId: string) => order('dismiss_import', { importId }),
	searchModels: (query: string, next: string | null) =>
		call<RemoteModelPage>('search_models', { query, next }),
	readRemoteModel: (repo: string) => call<RemoteModelDetails>('read_remote_model', { repo }),
	startDownload: (repo: string, commit: string) => call<string>('start_download', { repo, commit }),
	pauseDownload: (downloadId: string) => order('pause_download', { downloadId }),
	resumeDownload: (downloadId: string) => order('resume_download', { downloadId }),
	cancelDownload: (downloadId: string) => order('cancel_download', { downloadId }),
	dismissDownload: (downloadId: string) => order('dismiss_download', { downloadId }),
	readHubSettings: () => call<HubSettings>('read_hub_settings'),
	writeHubSettings: (change: HubSettingsChange) => call<HubSettings>('write_hub_settings', { change }),
};

async function readLicences(): Promise<Licences> {
	const response = await fetch('/licences.json');
	const isJson = response.headers.get('content-type')?.includes('json') ?? false;
	if (!response.ok || !isJson) {
		throw new CommandFailure('internal', `licences.json: status ${response.status}`);
	}
	return (await response.json()) as Licences;
}
