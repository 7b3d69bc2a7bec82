// Stand-in with the shape of the generated file; `UPDATE_BINDINGS=1 cargo test -p braid bindings_are_current` writes the real one.
import { invoke as __TAURI_INVOKE, Channel } from '@tauri-apps/api/core';

export const commands = {
	startApp: () => typedError<AppStart, CommandError>(__TAURI_INVOKE('start_app')),
	listConversations: () =>
		typedError<ConversationSummary[], CommandError>(__TAURI_INVOKE('list_conversations')),
	createConversation: () => typedError<ConversationSummary, CommandError>(__TAURI_INVOKE('create_conversation')),
	openConversation: (conversationId: string) =>
		typedError<ConversationView, CommandError>(__TAURI_INVOKE('open_conversation', { conversationId })),
	renameConversation: (conversationId: string, title: string) =>
		typedError<null, CommandError>(__TAURI_INVOKE('rename_conversation', { conversationId, title })),
	deleteConversation: (conversationId: string) =>
		typedError<null, CommandError>(__TAURI_INVOKE('delete_conversation', { conversationId })),
	restoreConversation: (conversationId: string) =>
		typedError<null, CommandError>(__TAURI_INVOKE('restore_conversation', { conversationId })),
	saveDraft: (conversationId: string, text: string) =>
		typedError<null, CommandError>(__TAURI_INVOKE('save_draft', { conversationId, text })),
	writeConversationSettings: (conversationId: string, settings: SamplingSettings) =>
		typedError<null, CommandError>(
			__TAURI_INVOKE('write_conversation_settings', { conversationId, settings }),
		),
	writeAppSettings: (settings: AppSettings) =>
		typedError<null, CommandError>(__TAURI_INVOKE('write_app_settings', { settings })),
	startGeneration: (request: StartGeneration, events: Channel<StreamEvent[]>) =>
		typedError<StartedGeneration, CommandError>(__TAURI_INVOKE('start_generation', { request, events })),
	stopGeneration: (requestId: string) =>
		typedError<null, CommandError>(__TAURI_INVOKE('stop_generation', { requestId })),
	watchEngine: (updates: Channel<EngineStatus>) =>
		typedError<null, CommandError>(__TAURI_INVOKE('watch_engine', { updates })),
	setGateMode: (mode: GateMode) => typedError<null, CommandError>(__TAURI_INVOKE('set_gate_mode', { mode })),
	restartEngine: () => typedError<null, CommandError>(__TAURI_INVOKE('restart_engine')),
	reportUiFailure: (message: string) =>
		typedError<null, CommandError>(__TAURI_INVOKE('report_ui_failure', { message })),
};

export type AppSettings = {
	theme: Theme;
	gateMode: GateMode;
	isOverlayOpen: boolean;
	isSidebarOpen: boolean;
	openTabs: string[];
	activeTab: string | null;
	newConversation: SamplingSettings;
};
export type AppStart = {
	version: string;
	settings: AppSettings;
	conversations: ConversationSummary[];
	interruptedAnswers: number;
};
export type CommandError = { code: ErrorCode; message: string };
export type ComponentKind = 'rust' | 'npm' | 'model' | 'native';
export type ConversationSummary = {
	id: string;
	title: string;
	preview: string;
	messageCount: number;
	updatedAtMs: number;
};
export type ConversationView = {
	summary: ConversationSummary;
	messages: MessageView[];
	draft: string;
	settings: SamplingSettings;
	activeRequestId: string | null;
};
export type EnginePhase =
	| { kind: 'loading' }
	| { kind: 'ready' }
	| { kind: 'failed'; code: ErrorCode; detail: string };
export type EngineStatus = {
	phase: EnginePhase;
	model: ModelSummary | null;
	gateMode: GateMode;
	rows: RowStatus[];
	steps: StepStats;
	memory: MemoryStats | null;
};
export type ErrorCode =
	| 'invalidSetting'
	| 'emptyMessage'
	| 'conversationNotFound'
	| 'alreadyGenerating'
	| 'contextTooLong'
	| 'queueFull'
	| 'templateRejected'
	| 'engineNotReady'
	| 'engineFailed'
	| 'badLogits'
	| 'modelMissing'
	| 'modelUnusable'
	| 'diskFull'
	| 'historyTooNew'
	| 'historyFailed'
	| 'internal';
export type FinishReason =
	| 'endOfTurn'
	| 'stopSequence'
	| 'maxTokens'
	| 'contextFull'
	| 'stopped'
	| 'failed'
	| 'interrupted';
export type GateMode = 'strict' | 'split';
export type GatePath = {
	path: SamplingPath;
	reasons: PathReason[];
	causedByConversationId: string | null;
	sinceStep: number;
};
export type LicensedComponent = {
	name: string;
	version: string;
	license: string;
	kind: ComponentKind;
	textId: number | null;
};
export type Licences = { components: LicensedComponent[]; texts: string[] };
export type MemoryStats = {
	modelBytes: number;
	kvCacheBytes: number;
	activeBytes: number;
	peakBytes: number;
};
export type MessageState = 'complete' | 'streaming' | 'stopped' | 'interrupted' | 'failed';
export type MessageView = {
	id: string;
	parentId: string | null;
	role: Role;
	text: string;
	state: MessageState;
	createdAtMs: number;
	finishReason: FinishReason | null;
	receipt: Receipt | null;
};
export type ModelSummary = {
	name: string;
	architecture: string;
	quantisation: string;
	computeDtype: string;
	device: string;
	contextTokens: number;
	diskBytes: number;
};
export type PathReason = 'logprobs' | 'mixedSettings';
export type Receipt = {
	ttftMs: number | null;
	decodeTokS: number | null;
	itlMsP50: number | null;
	itlMsP95: number | null;
	promptTokens: number;
	answerTokens: number;
	fusedSteps: number;
	perRowSteps: number;
	meanBatchRows: number;
	meanLogprob: number | null;
	settings: SamplingSettings;
};
export type Role = 'user' | 'assistant';
export type RowPhase = 'queued' | 'prefilling' | 'decoding';
export type RowStatus = {
	requestId: string;
	conversationId: string;
	phase: RowPhase;
	ahead: number;
	prefillDoneTokens: number;
	promptTokens: number;
	answerTokens: number;
	kvCacheTokens: number;
	contextTokens: number;
	gate: GatePath | null;
	decodeTokS: number | null;
	ttftMs: number | null;
	itlMsP50: number | null;
	itlMsP95: number | null;
};
export type SamplingPath = 'fused' | 'perRow';
export type SamplingSettings = {
	temperature: number;
	topP: number;
	topK: number;
	minP: number;
	seed: string | null;
	maxTokens: number;
	logprobs: number | null;
	stop: string[];
	systemPrompt: string;
};
export type StartGeneration = { requestId: string; conversationId: string; text: string };
export type StartedGeneration = { userMessage: MessageView; answer: MessageView };
export type StepBar = { step: number; batchRows: number; perRowRows: number; stepMs: number };
export type StepStats = {
	totalTokS: number;
	batchRows: number;
	decodeSteps: number;
	fusedSteps: number;
	perRowSteps: number;
	stepMsP50: number;
	forwardMsP50: number;
	sampleMsP50: number;
	waitMsP50: number;
	hostMsP50: number;
	evalsPerStep: number;
	waitsPerStep: number;
	hostReadsPerStep: number;
	recent: StepBar[];
};
export type StreamEvent = { requestId: string; sequence: number; body: StreamEventBody };
export type StreamEventBody =
	| { kind: 'queued'; ahead: number }
	| { kind: 'prefilling'; doneTokens: number; totalTokens: number }
	| { kind: 'text'; delta: string; answerTokens: number }
	| { kind: 'path'; path: GatePath }
	| { kind: 'finished'; reason: FinishReason; receipt: Receipt }
	| { kind: 'failed'; code: ErrorCode; detail: string; receipt: Receipt };
export type Theme = 'system' | 'light' | 'dark';

async function typedError<T, E>(
	result: Promise<T>,
): Promise<{ status: 'ok'; data: T } | { status: 'error'; error: E }> {
	try {
		return { status: 'ok', data: await result };
	} catch (e) {
		if (e instanceof Error) throw e;
		return { status: 'error', error: e as E };
	}
}
