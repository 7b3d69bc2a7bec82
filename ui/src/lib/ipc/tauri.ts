import { Channel } from '@tauri-apps/api/core';
import { CommandFailure, type Backend } from './backend';
import { commands } from './generated/bindings';
import type { CommandError, FileDrop, Licences } from './wire';

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
		searchConversations: (query) => unwrap(commands.searchConversations(query)),
		createConversation: () => unwrap(commands.createConversation()),
		openConversation: (id) => unwrap(commands.openConversation(id)),
		renameConversation: (id, title) => settle(commands.renameConversation(id, title)),
		pinConversation: (id) => settle(commands.pinConversation(id)),
		unpinConversation: (id) => settle(commands.unpinConversation(id)),
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
		listModels: () => unwrap(commands.listModels()),
		watchModels: (onStatus) => settle(commands.watchModels(channel(onStatus))),
		checkModelFit: (modelId, contextTokens) => unwrap(commands.checkModelFit(modelId, contextTokens)),
		loadModel: (modelId, contextTokens, despiteFit) =>
			settle(commands.loadModel(modelId, contextTokens, despiteFit)),
		cancelModelLoad: () => settle(commands.cancelModelLoad()),
		unloadModel: () => unwrap(commands.unloadModel()),
		deleteModel: (modelId) => settle(commands.deleteModel(modelId)),
		pickModelFolder: () => unwrap(commands.pickModelFolder()),
		pickGgufFile: () => unwrap(commands.pickGgufFile()),
		importModelFolder: (path, mode) => unwrap(commands.importModelFolder(path, mode)),
		importGguf: (path) => unwrap(commands.importGguf(path)),
		cancelImport: (importId) => settle(commands.cancelImport(importId)),
		dismissImport: (importId) => settle(commands.dismissImport(importId)),
		searchModels: (query, next) => unwrap(commands.searchModels(query, next)),
		readRemoteModel: (repo) => unwrap(commands.readRemoteModel(repo)),
		startDownload: (repo, commit) => unwrap(commands.startDownload(repo, commit)),
		pauseDownload: (downloadId) => settle(commands.pauseDownload(downloadId)),
		resumeDownload: (downloadId) => settle(commands.resumeDownload(downloadId)),
		cancelDownload: (downloadId) => settle(commands.cancelDownload(downloadId)),
		dismissDownload: (downloadId) => settle(commands.dismissDownload(downloadId)),
		readHubSettings: () => unwrap(commands.readHubSettings()),
		writeHubSettings: (change) => unwrap(commands.writeHubSettings(change)),
		saveScroll: (id, place) => settle(commands.saveScroll(id, place)),
		editMessage: (request, onEvents) => unwrap(commands.editMessage(request, channel(onEvents))),
		continueAnswer: (request, onEvents) => unwrap(commands.continueAnswer(request, channel(onEvents))),
		branchAnswer: (request, onEvents) => unwrap(commands.branchAnswer(request, channel(onEvents))),
		fanOut: (request, onEvents) => unwrap(commands.fanOut(request, channel(onEvents))),
		keepAnswer: (id, answerId) => unwrap(commands.keepAnswer(id, answerId)),
		writeAnswerVersion: (id, answerId, text) => unwrap(commands.writeAnswerVersion(id, answerId, text)),
		readVersions: (id, messageId) => unwrap(commands.readVersions(id, messageId)),
		pickAttachments: () => unwrap(commands.pickAttachments()),
		attachFile: (id, path) => unwrap(commands.attachFile(id, path)),
		attachText: (id, name, text) => unwrap(commands.attachText(id, name, text)),
		removeAttachment: (attachmentId) => settle(commands.removeAttachment(attachmentId)),
		readAttachment: (attachmentId) => unwrap(commands.readAttachment(attachmentId)),
		countTokens: (text) => unwrap(commands.countTokens(text)),
		watchFileDrops,
		pickExportFile: (suggestedName) => unwrap(commands.pickExportFile(suggestedName)),
		pickExportFolder: () => unwrap(commands.pickExportFolder()),
		exportConversation: (id, format, path) => unwrap(commands.exportConversation(id, format, path)),
		exportLibrary: (format, path) => unwrap(commands.exportLibrary(format, path)),
		readConversationMarkdown: (id) => unwrap(commands.readConversationMarkdown(id)),
		pickImportFiles: () => unwrap(commands.pickImportFiles()),
		importConversations: (paths) => unwrap(commands.importConversations(paths)),
		listRemoteServers: () => unwrap(commands.listRemoteServers()),
		saveRemoteServer: (change) => unwrap(commands.saveRemoteServer(change)),
		deleteRemoteServer: (serverId) => settle(commands.deleteRemoteServer(serverId)),
		listRemoteModels: (serverId) => unwrap(commands.listRemoteModels(serverId)),
		readLocalServer: () => unwrap(commands.readLocalServer()),
		writeLocalServer: (settings) => unwrap(commands.writeLocalServer(settings)),
		renewLocalServerKey: () => unwrap(commands.renewLocalServerKey()),
		checkStructure: (output) => unwrap(commands.checkStructure(output)),
		runBenchmark: (onProgress) => unwrap(commands.runBenchmark(channel(onProgress))),
		cancelBenchmark: () => settle(commands.cancelBenchmark()),
		saveBenchmarkReport: (path) => settle(commands.saveBenchmarkReport(path)),
		readDiagnostics: () => unwrap(commands.readDiagnostics()),
		saveDiagnostics: (path) => settle(commands.saveDiagnostics(path)),
		noteAlive: () => settle(commands.noteAlive()),
		showMenu: (words, onChosen) => settle(commands.showMenu(words, channel(onChosen))),
	};
}

async function readLicences(): Promise<Licences> {
	const response = await fetch('/licences.json');
	const isJson = response.headers.get('content-type')?.includes('json') ?? false;
	if (!response.ok || !isJson) {
		throw new CommandFailure('internal', `licences.json: status ${response.status}`);
	}
	return (await response.json()) as Licences;
}

type DropListener = (drop: FileDrop | null) => void;

/** Who watches; the app has one channel for all of them. */
const dropListeners = new Set<DropListener>();
let isWatchingDrops = false;

function watchFileDrops(onDrop: DropListener): () => void {
	dropListeners.add(onDrop);
	if (!isWatchingDrops) {
		isWatchingDrops = true;
		const drops = channel<FileDrop | null>((drop) => {
			for (const listener of dropListeners) listener(drop);
		});
		void commands.watchFileDrops(drops);
	}
	return () => dropListeners.delete(onDrop);
}
