import type {
	AppSettings,
	AppStart,
	AttachmentView,
	BenchmarkProgress,
	BenchmarkReport,
	BranchAnswer,
	ContinueAnswer,
	ConversationImportReport,
	ConversationSummary,
	ConversationView,
	EditMessage,
	EngineStatus,
	ErrorCode,
	ExportFormat,
	ExportReport,
	FileDrop,
	FanOut,
	FitReport,
	GateMode,
	HubSettings,
	HubSettingsChange,
	ImportMode,
	Licences,
	LocalServerSettings,
	LocalServerStatus,
	MenuItem,
	MenuWords,
	MessageView,
	ModelEntry,
	ModelsStatus,
	OverlapMode,
	RegenerateAnswer,
	RemoteModelDetails,
	RemoteModelPage,
	RemoteServer,
	RemoteServerChange,
	RemoteServerModel,
	SamplingSettings,
	ScrollPlace,
	SearchHit,
	StartGeneration,
	StartedFanOut,
	StartedGeneration,
	StreamEvent,
	StructureCheck,
	StructuredOutput,
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
	/** Keeps where the reader is; `null` is the end. */
	saveScroll(conversationId: string, place: ScrollPlace | null): Promise<void>;
	/** A version of a question, with an answer of its own; as [`startGeneration`]. */
	editMessage(request: EditMessage, onEvents: (events: StreamEvent[]) => void): Promise<StartedGeneration>;
	/** Resolves with the answer, streaming again, its text kept. */
	continueAnswer(request: ContinueAnswer, onEvents: (events: StreamEvent[]) => void): Promise<MessageView>;
	/** Resolves with a new version: the same up to a token, another token there, and on from it. */
	branchAnswer(request: BranchAnswer, onEvents: (events: StreamEvent[]) => void): Promise<MessageView>;
	/** Several answers at once, versions of each other; `onEvents` gets those of all, told apart by request. */
	fanOut(request: FanOut, onEvents: (events: StreamEvent[]) => void): Promise<StartedFanOut>;
	/** Goes on with one of several answers; the others are stopped and stay as versions. */
	keepAnswer(conversationId: string, answerId: string): Promise<ConversationView>;
	/** A version of an answer whose text the user wrote. */
	writeAnswerVersion(conversationId: string, answerId: string, text: string): Promise<ConversationView>;
	/** Every version at the place of a message, oldest first. */
	readVersions(conversationId: string, messageId: string): Promise<MessageView[]>;
	/** Asks for files; none if none was chosen. */
	pickAttachments(): Promise<string[]>;
	/** Attaches a file's text to what is typed. */
	attachFile(conversationId: string, path: string): Promise<AttachmentView>;
	attachText(conversationId: string, name: string, text: string): Promise<AttachmentView>;
	removeAttachment(attachmentId: string): Promise<void>;
	readAttachment(attachmentId: string): Promise<string>;
	/** Tokens for the loaded model; `null` without one. */
	countTokens(text: string): Promise<number | null>;
	/** Files that are dragged over the window and dropped on it; `null` while nothing is. Returns how to stop. */
	watchFileDrops(onDrop: (drop: FileDrop | null) => void): () => void;
	/** Asks where to write a file; `null` if no place was chosen. */
	pickExportFile(suggestedName: string): Promise<string | null>;
	pickExportFolder(): Promise<string | null>;
	exportConversation(conversationId: string, format: ExportFormat, path: string): Promise<ExportReport>;
	/** As JSON to one file, as Markdown to one file each in a folder. */
	exportLibrary(format: ExportFormat, path: string): Promise<ExportReport>;
	readConversationMarkdown(conversationId: string): Promise<string>;
	pickImportFiles(): Promise<string[]>;
	/** The format is found out; what cannot come in is told, the rest comes. */
	importConversations(paths: string[]): Promise<ConversationImportReport>;
	listRemoteServers(): Promise<RemoteServer[]>;
	saveRemoteServer(change: RemoteServerChange): Promise<RemoteServer>;
	deleteRemoteServer(serverId: string): Promise<void>;
	/** Asks the server; also a test of address and key. */
	listRemoteModels(serverId: string): Promise<RemoteServerModel[]>;
	readLocalServer(): Promise<LocalServerStatus>;
	writeLocalServer(settings: LocalServerSettings): Promise<LocalServerStatus>;
	renewLocalServerKey(): Promise<LocalServerStatus>;
	/** What is wrong with it, and what of it cannot be enforced. */
	checkStructure(output: StructuredOutput): Promise<StructureCheck>;
	/** `null` if it was cancelled. */
	runBenchmark(onProgress: (progress: BenchmarkProgress) => void): Promise<BenchmarkReport | null>;
	cancelBenchmark(): Promise<void>;
	saveBenchmarkReport(path: string): Promise<void>;
	/** Markdown without a word that a person or a model wrote. */
	readDiagnostics(): Promise<string>;
	saveDiagnostics(path: string): Promise<void>;
	/** Tells the watchdog that the page is alive. */
	noteAlive(): Promise<void>;
	/** Shows the menu bar in these words, where the system has one; `onChosen` gets what is chosen in it. */
	showMenu(words: MenuWords, onChosen: (item: MenuItem) => void): Promise<void>;
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
