import { CommandFailure, type Backend } from './backend';
import { ScriptedEngine } from './fake/engine';
import { newestBelow, pathOf, ScriptedHistory, type Stored } from './fake/history';
import { ScriptedModels } from './fake/models';
import { scenarios, type Scenario } from './fake/scenarios';
import { searchIn } from './fake/search';
import { attachmentCalls } from './fake/attachments';
import type { ScriptedParts } from './fake/parts';
import { reportCalls } from './fake/reports';
import { addTurn, emptyAnswer, ScriptedAnswers, versioned } from './fake/running';
import { serverCalls } from './fake/servers';
import { transferCalls } from './fake/transfer';
import { versionCalls } from './fake/versions';
import type { ConversationView, Licences, RegenerateAnswer, StartGeneration, StreamEvent } from './wire';

/**
 * Scripted backend for the tests in a browser; `?scenario=` picks its behaviour. Not part of the app's bundle:
 * only a build with `--mode fake` resolves `#backend` to this file.
 */
export function createBackend(): Backend {
	const name = new URLSearchParams(location.search).get('scenario') ?? 'fresh';
	const scenario = scenarios[name];
	if (!scenario) throw new Error(`no scenario is called ${name}`);
	const tokensPerS = new URLSearchParams(location.search).get('rate');
	return scripted(tokensPerS === null ? scenario : { ...scenario, stepMs: 1000 / Number(tokensPerS) });
}

/** The backend of one scenario. */
export function scripted(scenario: Scenario): Backend {
	const history = new ScriptedHistory(scenario);
	const engine = new ScriptedEngine(scenario);
	const models = new ScriptedModels(scenario, engine);
	engine.gateMode = history.settings.gateMode;
	engine.overlap = history.settings.overlap;
	const running = new ScriptedAnswers(scenario, history, engine);

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

	function startGeneration(request: StartGeneration, onEvents: (events: StreamEvent[]) => void) {
		const stored = running.check(request.conversationId);
		const { userMessage, answers } = addTurn(stored, request.text, 1, () => String(history.nextId++));
		const answer = answers[0] ?? userMessage;
		const { requestId } = request;
		running.start(stored, { answer, requestId, settings: stored.settings }, onEvents);
		return { userMessage, answer };
	}

	function regenerateAnswer(request: RegenerateAnswer, onEvents: (events: StreamEvent[]) => void) {
		const stored = running.check(request.conversationId);
		const old = stored.tree.find((message) => message.id === request.answerId);
		if (!old) throw new CommandFailure('internal', `"${request.answerId}" names no answer`);
		const answer = emptyAnswer(String(history.nextId++), old.parentId);
		stored.tree = [...stored.tree, answer];
		stored.leafId = answer.id;
		const ofOld = request.seed === 'same' ? old.receipt?.settings : undefined;
		const settings = ofOld ?? { ...stored.settings, seed: null };
		running.start(stored, { answer, requestId: request.requestId, settings }, onEvents);
		return versioned(stored, answer);
	}

	function view(id: string): ConversationView {
		const stored = conversation(id);
		const { summary, draft, draftAttachments, settings, scroll } = stored;
		const messages = pathOf(stored).map((message) => running.soFar(message));
		const activeRequests = running.activeIn(id);
		return { summary, messages, draft, draftAttachments, settings, activeRequests, scroll };
	}

	const parts: ScriptedParts = { call, scenario, history, engine, running, conversation, view };

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
					lastEnd: { kind: 'clean' as const },
				};
			}),
		listConversations: () => call(() => history.list()),
		searchConversations: (query) => call(() => searchIn(history.conversations, query)),
		createConversation: () => call(() => history.add().summary),
		openConversation: (id) => call(() => view(id)),
		closeConversation: (id) => call(() => running.stopIn(id)),
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
