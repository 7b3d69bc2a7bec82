import type {
	AppSettings,
	AppStart,
	ConversationSummary,
	ConversationView,
	EngineStatus,
	ErrorCode,
	FitReport,
	GateMode,
	HubSettings,
	HubSettingsChange,
	ImportMode,
	Licences,
	MessageView,
	ModelEntry,
	ModelsStatus,
	OverlapMode,
	RegenerateAnswer,
	RemoteModelDetails,
	RemoteModelPage,
	SamplingSettings,
	SearchHit,
	StartGeneration,
	StartedGeneration,
	StreamEvent,
	TokenDetail,
	Unloaded,
} from './wire';

/** Every call the UI can make. Each promise rejects with a [`CommandFailure`] and nothing else. */
export interface Backend {
	startApp(): Promise<AppStart>;
	listConversations(): Promise<ConversationSummary[]>;
	/** Conversations with every word of `query` in their title or in one message; at most 50, matching titles first. */
	searchConversations(query: string): Promise<SearchHit[]>;
	createConversation(): Promise<ConversationSummary>;
	openConversation(conversationId: string): Promise<ConversationView>;
	renameConversation(conversationId: string, title: string): Promise<void>;
	pinConversation(conversationId: string): Promise<void>;
	unpinConversation(conversationId: string): Promise<void>;
	deleteConversation(conversationId: string): Promise<void>;
	restoreConversation(conversationId: string): Promise<void>;
	/** Ends its answer, and frees what the engine keeps for the next one. */
	closeConversation(conversationId: string): Promise<void>;
	/** Shows another version of a message; resolves with the conversation as it then runs. */
	selectVersion(conversationId: string, messageId: string): Promise<ConversationView>;
	/** What was recorded of an answer's tokens; empty if nothing was. */
	readTokenDetails(messageId: string): Promise<TokenDetail[]>;
	saveDraft(conversationId: string, text: string): Promise<void>;
	writeConversationSettings(conversationId: string, settings: SamplingSettings): Promise<void>;
	writeAppSettings(settings: AppSettings): Promise<void>;
	/** Resolves once both messages are on disk; frames may arrive before that. */
	startGeneration(
		request: StartGeneration,
		onEvents: (events: StreamEvent[]) => void,
	): Promise<StartedGeneration>;
	/** Resolves with the new, empty version once it is on disk; frames may arrive before that. */
	regenerateAnswer(
		request: RegenerateAnswer,
		onEvents: (events: StreamEvent[]) => void,
	): Promise<MessageView>;
	/** Idempotent, in every phase. */
	stopGeneration(requestId: string): Promise<void>;
	/** The first snapshot comes at once, then one to four a second until the window closes. */
	watchEngine(onStatus: (status: EngineStatus) => void): Promise<void>;
	setGateMode(mode: GateMode): Promise<void>;
	setOverlap(mode: OverlapMode): Promise<void>;
	restartEngine(): Promise<void>;
	reportUiFailure(message: string): Promise<void>;
	readLicences(): Promise<Licences>;
	/** Every model on this computer, usable or not. */
	listModels(): Promise<ModelEntry[]>;
	/** The first status comes at once, then one at each change until the window closes. */
	watchModels(onStatus: (status: ModelsStatus) => void): Promise<void>;
	/** What memory says to a model with so much context, in tokens; `null` is the model's own. Loads nothing. */
	checkModelFit(modelId: string, contextTokens: number | null): Promise<FitReport>;
	/** Resolves once the load has begun; how it goes on comes by [`watchModels`]. */
	loadModel(modelId: string, contextTokens: number | null, despiteFit: boolean): Promise<void>;
	/** The model that ran goes on. */
	cancelModelLoad(): Promise<void>;
	unloadModel(): Promise<Unloaded>;
	/** Deletes its files; a model that lies elsewhere is only forgotten. One that is loaded is refused. */
	deleteModel(modelId: string): Promise<void>;
	/** Asks for a folder; `null` if none was chosen. */
	pickModelFolder(): Promise<string | null>;
	/** Asks for a GGUF file; `null` if none was chosen. */
	pickGgufFile(): Promise<string | null>;
	/** Resolves with the import's id; how it goes on comes by [`watchModels`]. */
	importModelFolder(path: string, mode: ImportMode): Promise<string>;
	/** Resolves with the import's id; how it goes on comes by [`watchModels`]. */
	importGguf(path: string): Promise<string>;
	cancelImport(importId: string): Promise<void>;
	/** Forgets an import that failed. */
	dismissImport(importId: string): Promise<void>;
	/** A page of the hub's models for `query`; `next` is the page before's, `null` for the first. */
	searchModels(query: string, next: string | null): Promise<RemoteModelPage>;
	/** What a repository holds, read before anything is downloaded. */
	readRemoteModel(repo: string): Promise<RemoteModelDetails>;
	/** Resolves with the download's id; how it goes on comes by [`watchModels`]. */
	startDownload(repo: string, commit: string): Promise<string>;
	pauseDownload(downloadId: string): Promise<void>;
	resumeDownload(downloadId: string): Promise<void>;
	/** Leaves nothing of it on disk. */
	cancelDownload(downloadId: string): Promise<void>;
	/** Takes a download that has ended off the list. */
	dismissDownload(downloadId: string): Promise<void>;
	readHubSettings(): Promise<HubSettings>;
	writeHubSettings(change: HubSettingsChange): Promise<HubSettings>;
}

/** What a call rejects with: a code to look up in `errors.ts`, and detail that is shown but never matched on. */
export class CommandFailure extends Error {
	readonly code: ErrorCode;

	constructor(code: ErrorCode, detail: string) {
		super(detail);
		this.name = 'CommandFailure';
		this.code = code;
	}
}

/** Turns whatever was thrown into a failure that has a code. */
export function asFailure(thrown: unknown): CommandFailure {
	if (thrown instanceof CommandFailure) return thrown;
	return new CommandFailure('internal', thrown instanceof Error ? thrown.message : String(thrown));
}
