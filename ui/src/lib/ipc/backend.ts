import type {
	AppSettings,
	AppStart,
	ConversationSummary,
	ConversationView,
	EngineStatus,
	ErrorCode,
	GateMode,
	Licences,
	MessageView,
	OverlapMode,
	RegenerateAnswer,
	SamplingSettings,
	StartGeneration,
	StartedGeneration,
	StreamEvent,
	TokenDetail,
} from './wire';

/** Every call the UI can make. Each promise rejects with a [`CommandFailure`] and nothing else. */
export interface Backend {
	startApp(): Promise<AppStart>;
	listConversations(): Promise<ConversationSummary[]>;
	createConversation(): Promise<ConversationSummary>;
	openConversation(conversationId: string): Promise<ConversationView>;
	renameConversation(conversationId: string, title: string): Promise<void>;
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
