import { CommandFailure, type Backend } from './backend';
import { scriptOf } from './fake/answers';
import { ScriptedEngine } from './fake/engine';
import { newestBelow, pathOf, ScriptedHistory, type Stored } from './fake/history';
import { ScriptedModels } from './fake/models';
import { scenarios, type Scenario } from './fake/scenarios';
import { searchIn } from './fake/search';
import { attachmentCalls } from './fake/attachments';
import type { ScriptedParts } from './fake/parts';
import { reportCalls } from './fake/reports';
import { serverCalls } from './fake/servers';
import { transferCalls } from './fake/transfer';
import { versionCalls } from './fake/versions';
import type {
	ConversationView,
	Licences,
	MessageView,
	RegenerateAnswer,
	SamplingSettings,
	StartGeneration,
	StartedGeneration,
	StreamEvent,
} from './wire';

/**
 * Scripted backend for the tests in a browser; `?scenario=` picks its behaviour. Not part of the app's bundle:
 * only a build with `--mode fake` resolves `#backend` to this file.
 */
export function createBackend(): Backend {
	const name = new URLSearchParams(location.search).get('scenario') ?? 'fresh';
	const scenario = scenarios[name];
	if (!scenario) throw new Error(`no scenario is called ${name}`);
	return scripted(scenario);
}

/** The backend of one scenario. */
export function scripted(scenario: Scenario): Backend {
	const history = new ScriptedHistory(scenario);
	const engine = new ScriptedEngine(scenario);
	const models = new ScriptedModels(scenario, engine);
	engine.gateMode = history.settings.gateMode;
	engine.overlap = history.settings.overlap;
	const running = new Map<string, string>();

	function conversation(id: string): Stored {
		const stored = history.find(id);
		if (!stored) throw new CommandFailure('conversationNotFound', `conversation ${id}`);
		return stored;
	}

	/** Runs `work` as a call: later, and with its result copied as on the wire. */
	async function call<T>(work: () => T): Promise<T> {
		await new Promise((resolve) => setTimeout(resolve, scenario.callMs));
		const result = structuredClone(work());
		history.save();
		return result;
	}

	function check(conversationId: string): Stored {
		if (scenario.sendFails) throw new CommandFailure(scenario.sendFails, 'write: no space left (scripted)');
		if (engine.phase.kind === 'failed') throw new CommandFailure(engine.phase.code, engine.phase.detail);
		if (engine.phase.kind === 'loading') throw new CommandFailure('engineNotReady', 'loading');
		return conversation(conversationId);
	}

	/** Streams an answer into `answer`, which is in the tree already. */
	function generate(
		stored: Stored,
		{ answer, requestId, settings }: { answer: MessageView; requestId: string; settings: SamplingSettings },
		onEvents: (events: StreamEvent[]) => void,
	) {
		const { id } = stored.summary;
		running.set(id, requestId);
		engine.submit({
			requestId,
			conversationId: id,
			settings,
			script: scriptOf(Number(id), settings),
			promptTokens: 40 + pathOf(stored).reduce((sum, message) => sum + message.text.length, 0),
			emit: onEvents,
			onEnd: ({ text, thinking, details, reason, receipt, failure }) => {
				running.delete(id);
				const state = reason === 'stopped' || reason === 'failed' ? reason : 'complete';
				const { thinkingTokens } = receipt;
				const ended = { text, thinking, thinkingTokens, state, finishReason: reason, receipt } as const;
				stored.tree = stored.tree.map((message) =>
					message.id === answer.id ? { ...message, ...ended, ...(failure && { failure }) } : message,
				);
				if (details.length > 0) stored.details[answer.id] = details;
				history.save();
			},
		});
	}

	function startGeneration(request: StartGeneration, onEvents: (events: StreamEvent[]) => void) {
		const stored = check(request.conversationId);
		const started = addTurn(stored, request.text, () => String(history.nextId++));
		const { requestId } = request;
		generate(stored, { answer: started.answer, requestId, settings: stored.settings }, onEvents);
		return started;
	}

	function regenerateAnswer(request: RegenerateAnswer, onEvents: (events: StreamEvent[]) => void) {
		const stored = check(request.conversationId);
		const old = stored.tree.find((message) => message.id === request.answerId);
		if (!old) throw new CommandFailure('internal', `"${request.answerId}" names no answer`);
		const answer = emptyAnswer(String(history.nextId++), old.parentId);
		stored.tree = [...stored.tree, answer];
		stored.leafId = answer.id;
		const ofOld = request.seed === 'same' ? old.receipt?.settings : undefined;
		const settings = ofOld ?? { ...stored.settings, seed: null };
		generate(stored, { answer, requestId: request.requestId, settings }, onEvents);
		return pathOf(stored).at(-1) ?? answer;
	}

	function view(id: string): ConversationView {
		const stored = conversation(id);
		const requestId = running.get(id) ?? null;
		const { summary, draft, settings } = stored;
		const messages = withPartial(pathOf(stored), requestId, engine);
		const answerId = messages.at(-1)?.id ?? '';
		const activeRequests = requestId === null ? [] : [{ requestId, answerId }];
		return { summary, messages, draft, draftAttachments: [], settings, activeRequests, scroll: null };
	}

	const parts: ScriptedParts = { call, scenario, history, engine, conversation, view };

	return {
		...versionCalls(parts),
		...attachmentCalls(parts),
		...transferCalls(parts),
		...serverCalls(parts),
		...reportCalls(parts),
		startApp: () =>
			call(() => {
				if (scenario.startFails) throw new CommandFailure(scenario.startFails, 'schema 99 is newer than 2');
				return {
					version: '0.1.0',
					settings: history.settings,
					conversations: history.list(),
					interruptedAnswers: history.interruptedAnswers,
				};
			}),
		listConversations: () => call(() => history.list()),
		searchConversations: (query) => call(() => searchIn(history.conversations, query)),
		createConversation: () => call(() => history.add().summary),
		openConversation: (id) => call(() => view(id)),
		closeConversation: (id) =>
			call(() => {
				const requestId = running.get(id);
				if (requestId !== undefined) engine.stop(requestId);
			}),
		selectVersion: (id, messageId) =>
			call(() => {
				const stored = conversation(id);
				stored.leafId = newestBelow(stored, messageId);
				return view(id);
			}),
		readTokenDetails: (messageId) =>
			call(() => history.conversations.flatMap((stored) => stored.details[messageId] ?? [])),
		renameConversation: (id, title) =>
			call(() => void (conversation(id).summary = { ...conversation(id).summary, title })),
		pinConversation: (id) =>
			call(() => void (conversation(id).summary = { ...conversation(id).summary, isPinned: true })),
		unpinConversation: (id) =>
			call(() => void (conversation(id).summary = { ...conversation(id).summary, isPinned: false })),
		deleteConversation: (id) => call(() => void (conversation(id).isDeleted = true)),
		restoreConversation: (id) =>
			call(() => {
				const stored = history.conversations.find((other) => other.summary.id === id);
				if (stored) stored.isDeleted = false;
			}),
		saveDraft: (id, text) => call(() => void (conversation(id).draft = text)),
		writeConversationSettings: (id, settings) => call(() => void (conversation(id).settings = settings)),
		writeAppSettings: (settings) => call(() => void (history.settings = settings)),
		startGeneration: (request, onEvents) => call(() => startGeneration(request, onEvents)),
		regenerateAnswer: (request, onEvents) => call(() => regenerateAnswer(request, onEvents)),
		stopGeneration: (requestId) => call(() => engine.stop(requestId)),
		watchEngine: (onStatus) => call(() => engine.watch((status) => onStatus(structuredClone(status)))),
		setGateMode: (mode) => call(() => void (engine.gateMode = mode)),
		setOverlap: (mode) => call(() => void (engine.overlap = mode)),
		restartEngine: () => call(() => engine.restart()),
		reportUiFailure: (message) =>
			call(() => void sessionStorage.setItem('braid-scripted-ui-failure', message)),
		readLicences: () => call(() => licences),
		listModels: () => call(() => models.list()),
		watchModels: (onStatus) => call(() => models.watch(onStatus)),
		checkModelFit: (id, contextTokens) => call(() => models.fit(id, contextTokens)),
		loadModel: (id, contextTokens, despiteFit) => call(() => models.load(id, contextTokens, despiteFit)),
		cancelModelLoad: () => call(() => models.cancelLoad()),
		unloadModel: () => call(() => models.unload()),
		deleteModel: (id) => call(() => models.delete(id)),
		pickModelFolder: () => call(() => '/data/models/OLMo-2-1B-Instruct-4bit'),
		pickGgufFile: () => call(() => '/home/me/Downloads/tinyllama-1.1b-chat.Q8_0.gguf'),
		importModelFolder: (path, mode) => call(() => models.import(path, mode)),
		importGguf: (path) => call(() => models.import(path, 'copy')),
		cancelImport: (id) => call(() => models.dismissImport(id)),
		dismissImport: (id) => call(() => models.dismissImport(id)),
		searchModels: (query, next) => call(() => models.downloads.search(query, next)),
		readRemoteModel: (repo) => call(() => models.downloads.read(repo)),
		startDownload: (repo) => call(() => models.downloads.start(repo)),
		pauseDownload: (id) => call(() => models.downloads.pause(id)),
		resumeDownload: (id) => call(() => models.downloads.resume(id)),
		cancelDownload: (id) => call(() => models.downloads.remove(id)),
		dismissDownload: (id) => call(() => models.downloads.remove(id)),
		readHubSettings: () => call(() => models.downloads.settings),
		writeHubSettings: (change) => call(() => models.downloads.writeSettings(change)),
	};
}

const licences: Licences = {
	components: [
		{ name: 'mlx', version: '0.32.2', license: 'MIT', kind: 'native', textId: 0 },
		{ name: 'svelte', version: '5.57.3', license: 'MIT', kind: 'npm', textId: 0 },
		{ name: 'tauri', version: '2.12.5', license: 'MIT OR Apache-2.0', kind: 'rust', textId: null },
	],
	texts: ['Permission is hereby granted, free of charge, …'],
};

const unwritten = {
	finishReason: null,
	receipt: null,
	thinking: '',
	thinkingTokens: 0,
	versionIds: [],
	attachments: [],
};

function emptyAnswer(id: string, parentId: string | null): MessageView {
	const shared = { ...unwritten, createdAtMs: Date.now() };
	return { ...shared, id, parentId, role: 'assistant', text: '', state: 'streaming' };
}

function addTurn(stored: Stored, text: string, nextId: () => string): StartedGeneration {
	const shared = { ...unwritten, createdAtMs: Date.now(), parentId: stored.leafId };
	const question: MessageView = { ...shared, id: nextId(), role: 'user', text, state: 'complete' };
	const empty = emptyAnswer(nextId(), question.id);
	stored.tree = [...stored.tree, question, empty];
	stored.leafId = empty.id;
	stored.summary = {
		...stored.summary,
		title: stored.summary.title || text.slice(0, 48),
		preview: text.slice(0, 80),
		messageCount: stored.tree.length,
		updatedAtMs: Date.now(),
	};
	const [userMessage = question, answer = empty] = pathOf(stored).slice(-2);
	return { userMessage, answer };
}

function withPartial(
	messages: MessageView[],
	requestId: string | null,
	engine: ScriptedEngine,
): MessageView[] {
	const written = requestId === null ? null : engine.writtenSoFar(requestId);
	if (written === null) return messages;
	return messages.map((message) => (message.state === 'streaming' ? { ...message, ...written } : message));
}
