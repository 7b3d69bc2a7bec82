import { CommandFailure, type Backend } from './backend';
import { answers } from './fake/answers';
import { ScriptedEngine } from './fake/engine';
import { ScriptedHistory, type Stored } from './fake/history';
import { scenarios, type Scenario } from './fake/scenarios';
import type { MessageView, StartGeneration, StartedGeneration, StreamEvent } from './wire';

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
	engine.gateMode = history.settings.gateMode;
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

	function startGeneration(request: StartGeneration, onEvents: (events: StreamEvent[]) => void) {
		if (scenario.sendFails) throw new CommandFailure(scenario.sendFails, 'write: no space left (scripted)');
		if (engine.phase.kind === 'failed') throw new CommandFailure('engineFailed', engine.phase.detail);
		if (engine.phase.kind === 'loading') throw new CommandFailure('engineNotReady', 'loading');
		const stored = conversation(request.conversationId);
		const started = addTurn(stored, request.text, () => String(history.nextId++));
		const tokens = (answers[(Number(stored.summary.id) + answers.length - 1) % answers.length] ?? '').match(
			/\s*\S{1,6}|\s+$/g,
		);
		running.set(stored.summary.id, request.requestId);
		engine.submit({
			requestId: request.requestId,
			conversationId: request.conversationId,
			settings: stored.settings,
			tokens: tokens ?? [],
			promptTokens: 40 + request.text.length * 2,
			emit: onEvents,
			onEnd: (text, reason, receipt) => {
				running.delete(stored.summary.id);
				const state = reason === 'stopped' || reason === 'failed' ? reason : 'complete';
				stored.messages = stored.messages.map((message) =>
					message.id === started.answer.id
						? { ...message, text, state, finishReason: reason, receipt }
						: message,
				);
				history.save();
			},
		});
		return started;
	}

	return {
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
		createConversation: () => call(() => history.add().summary),
		openConversation: (id) =>
			call(() => {
				const { summary, messages, draft, settings } = conversation(id);
				const activeRequestId = running.get(id) ?? null;
				return {
					summary,
					messages: withPartial(messages, activeRequestId, engine),
					draft,
					settings,
					activeRequestId,
				};
			}),
		renameConversation: (id, title) =>
			call(() => void (conversation(id).summary = { ...conversation(id).summary, title })),
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
		stopGeneration: (requestId) => call(() => engine.stop(requestId)),
		watchEngine: (onStatus) => call(() => engine.watch((status) => onStatus(structuredClone(status)))),
		setGateMode: (mode) => call(() => void (engine.gateMode = mode)),
		restartEngine: () => call(() => engine.restart()),
		reportUiFailure: (message) =>
			call(() => void sessionStorage.setItem('braid-scripted-ui-failure', message)),
		readLicences: () =>
			call(() => ({
				components: [
					{ name: 'mlx', version: '0.32.2', license: 'MIT', kind: 'native' as const, textId: 0 },
					{ name: 'svelte', version: '5.57.3', license: 'MIT', kind: 'npm' as const, textId: 0 },
					{
						name: 'tauri',
						version: '2.12.5',
						license: 'MIT OR Apache-2.0',
						kind: 'rust' as const,
						textId: null,
					},
				],
				texts: ['Permission is hereby granted, free of charge, …'],
			})),
	};
}

function addTurn(stored: Stored, text: string, nextId: () => string): StartedGeneration {
	const shared = { createdAtMs: Date.now(), finishReason: null, receipt: null };
	const parentId = stored.messages[stored.messages.length - 1]?.id ?? null;
	const userMessage: MessageView = {
		...shared,
		id: nextId(),
		parentId,
		role: 'user',
		text,
		state: 'complete',
	};
	const answer: MessageView = {
		...shared,
		id: nextId(),
		parentId: userMessage.id,
		role: 'assistant',
		text: '',
		state: 'streaming',
	};
	stored.messages = [...stored.messages, userMessage, answer];
	stored.summary = {
		...stored.summary,
		title: stored.summary.title || text.slice(0, 48),
		preview: text.slice(0, 80),
		messageCount: stored.messages.length,
		updatedAtMs: Date.now(),
	};
	return { userMessage, answer };
}

function withPartial(
	messages: MessageView[],
	requestId: string | null,
	engine: ScriptedEngine,
): MessageView[] {
	const text = requestId === null ? null : engine.textSoFar(requestId);
	if (text === null) return messages;
	return messages.map((message) => (message.state === 'streaming' ? { ...message, text } : message));
}
