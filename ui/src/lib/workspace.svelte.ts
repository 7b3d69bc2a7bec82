import { createContext } from 'svelte';
import type { ChatTab } from './chat/chatTab.svelte';
import { focusComposer } from './chat/focusComposer';
import { ConversationSearch } from './chat/conversationSearch.svelte';
import { Conversations } from './chat/conversations.svelte';
import { Tabs } from './chat/tabs.svelte';
import { Unread } from './chat/unread';
import { EngineWatch } from './engine/engineStatus.svelte';
import { forecastPath, pathMark, type BatchOutlook, type PathMark } from './engine/paths';
import { tabPhase, type TabPhase } from './engine/tabPhase';
import { t } from './i18n/language.svelte';
import { asFailure, type Backend } from './ipc/backend';
import { wordingOf } from './ipc/errors';
import type { AppStart, GateMode, OverlapMode, SamplingSettings, SearchHit } from './ipc/wire';
import type { Notices } from './notices.svelte';
import { bytes } from './format';
import { ModelsState } from './models/models.svelte';
import { newsWords } from './models/newsWords';
import type { StatusChanges } from './models/statusChanges';
import { Benchmark } from './reports/benchmark.svelte';
import { LocalServer } from './servers/localServer.svelte';
import { RemoteServers } from './servers/remoteServers.svelte';
import { Settings } from './settings/settings.svelte';
import { TabPresets } from './settings/tabPresets.svelte';
import { Transfer } from './transfer/transfer.svelte';

/** Which view fills the window. */
export type Screen = 'chat' | 'settings' | 'models';

/** Parts of the settings screen, in the order of its list. */
export const settingsSections = [
	'appearance',
	'newChats',
	'model',
	'servers',
	'localServer',
	'performance',
	'data',
	'help',
] as const;
export type SettingsSection = (typeof settingsSections)[number];

/** What lies over the window and takes all keys. */
export type WindowDialog = 'palette' | 'sheet' | 'askSeveral';

/** Everything that an open window shares: made once the app has started, passed by context. */
export class Workspace {
	readonly backend: Backend;
	readonly version: string;
	readonly settings: Settings;
	readonly conversations: Conversations;
	readonly search: ConversationSearch;
	readonly tabs: Tabs;
	readonly unread: Unread;
	readonly presets: TabPresets;
	readonly engine: EngineWatch;
	readonly models: ModelsState;
	readonly servers: RemoteServers;
	readonly localServer: LocalServer;
	readonly benchmark: Benchmark;
	readonly transfer: Transfer;
	readonly notices: Notices;
	screen = $state<Screen>('chat');
	settingsSection = $state<SettingsSection>('appearance');
	/** Tab whose title is being written. */
	renamedTab = $state<string | null>(null);
	/** What happened out of sight, for those who listen to the screen. */
	announcement = $state('');
	/** Whether the active tab's settings are shown. */
	isTabSettingsOpen = $state(false);
	dialog = $state<WindowDialog | null>(null);
	/** Tabs whose latest answers stand beside each other, and the tab in whose place they do. */
	beside = $state.raw<{ from: string; ids: readonly string[] } | null>(null);
	/** Commands that the palette ran since the window opened, latest first. */
	recentCommands: readonly string[] = [];

	constructor(backend: Backend, start: AppStart, notices: Notices) {
		this.backend = backend;
		this.version = start.version;
		this.notices = notices;
		this.settings = new Settings(backend, start.settings, (thrown) => this.sayFailure(thrown));
		this.conversations = new Conversations(backend);
		this.conversations.all = start.conversations;
		this.search = new ConversationSearch(backend);
		this.tabs = new Tabs(backend, () => this.#noteAnswer());
		this.tabs.onAnswerEnd = (id) => this.#noteAnswerEnd(id);
		this.unread = new Unread(this.settings);
		this.presets = new TabPresets(this.settings);
		this.engine = new EngineWatch(backend);
		this.models = new ModelsState(backend, {
			onNews: (news) => this.#tellNews(news),
			onFailure: (thrown) => this.sayFailure(thrown),
		});
		this.servers = new RemoteServers(backend);
		this.localServer = new LocalServer(backend);
		this.benchmark = new Benchmark(backend);
		this.transfer = new Transfer(backend);
	}

	/** Brings the last run's tabs back, or opens the first one. */
	async open(start: AppStart): Promise<void> {
		this.tabs.restore(start.settings.openTabs, start.settings.activeTab);
		if (this.tabs.open.length === 0) await this.newTab();
		if (start.interruptedAnswers > 0) {
			this.notices.say(t('conversations:interrupted', { count: start.interruptedAnswers }));
		}
		this.#sayLastEnd(start);
	}

	/** An abrupt end is told where nothing else tells of it. */
	#sayLastEnd({ lastEnd, interruptedAnswers }: AppStart) {
		if (lastEnd.kind === 'clean' || (interruptedAnswers > 0 && lastEnd.place === null)) return;
		const place = lastEnd.place === null ? '' : ` ${t('app:brokeAt', { place: lastEnd.place })}`;
		this.notices.say(t('app:endedAbruptly') + place, {
			action: { label: t('app:openDiagnostics'), run: () => this.showSettings('help') },
		});
	}

	async newTab(): Promise<void> {
		await this.#attempt(async () => {
			const created = await this.conversations.create();
			this.showConversation(created.id);
			focusComposer();
		});
	}

	showConversation(id: string) {
		this.screen = 'chat';
		this.tabs.show(id);
		this.#saveTabs();
	}

	/** Shows a conversation that was found, at the message that was found in it. */
	openHit({ conversationId, messageId }: SearchHit) {
		this.showConversation(conversationId);
		if (messageId !== null) void this.tabs.byId(conversationId)?.reveal(messageId);
	}

	/** Puts the caret into the search field, in the sidebar. */
	startSearch() {
		if (!this.settings.value.isSidebarOpen) this.toggleSidebar();
		this.search.focus();
	}

	showTabAt(index: number) {
		const tab = this.tabs.open[index];
		if (tab) this.showConversation(tab.id);
	}

	/** Closes a tab; its answer ends, its text is kept. A tab in which nothing was said leaves no trace. */
	async closeTab(id: string): Promise<void> {
		const tab = this.tabs.remove(id);
		if (!tab) return;
		this.#saveTabs();
		const wasAnswering = tab.isAnswering;
		const { isBlank } = tab;
		await this.#attempt(async () => {
			await tab.close();
			if (isBlank) await this.conversations.remove(id);
			else await this.conversations.refresh();
		});
		if (wasAnswering) {
			this.notices.say(t('conversations:closedAnswering', { title: this.conversations.titleOf(id) }), {
				action: { label: t('conversations:reopen'), run: () => this.showConversation(id) },
			});
		}
		if (this.tabs.open.length === 0) await this.newTab();
	}

	/** Closes every tab but one; answers that run there end, their text is kept. */
	async closeOtherTabs(id: string): Promise<void> {
		const others = this.tabs.open.filter((tab) => tab.id !== id);
		this.showConversation(id);
		for (const { id: other } of others) await this.closeTab(other);
	}

	/** Puts a tab `by` places further to the right. */
	moveTab(id: string, by: 1 | -1) {
		this.placeTab(id, this.tabs.open.findIndex((tab) => tab.id === id) + by);
	}

	/** Puts a tab at a place, counted from 0. */
	placeTab(id: string, place: number) {
		this.tabs.move(id, place);
		this.#saveTabs();
	}

	/** Opens a tab whose settings are those given. */
	async newTabWith(settings: SamplingSettings): Promise<void> {
		await this.#attempt(async () => {
			const created = await this.conversations.create();
			await this.backend.writeConversationSettings(created.id, settings);
			this.showConversation(created.id);
		});
	}

	async renameConversation(id: string, title: string): Promise<void> {
		await this.#attempt(() => this.conversations.rename(id, title));
	}

	/** Pins a conversation, or unpins one that is pinned. */
	async togglePin(id: string): Promise<void> {
		const isPinned = this.conversations.byId(id)?.isPinned ?? false;
		await this.#attempt(() => (isPinned ? this.conversations.unpin(id) : this.conversations.pin(id)));
	}

	/** Deletes at once; the notice brings it back, tab included. */
	async deleteConversation(id: string): Promise<void> {
		const title = this.conversations.titleOf(id);
		this.unread.clear(id);
		const tab = this.tabs.remove(id);
		await this.#attempt(async () => {
			await tab?.close();
			await this.conversations.remove(id);
			const undo = () => void this.#undelete(id, tab);
			this.notices.say(t('conversations:deleted', { title }), {
				action: { label: t('conversations:undo'), run: undo },
			});
		});
		this.#saveTabs();
		if (this.tabs.open.length === 0) await this.newTab();
	}

	async setGateMode(mode: GateMode): Promise<void> {
		await this.#attempt(async () => {
			await this.backend.setGateMode(mode);
			this.settings.change({ gateMode: mode });
		});
	}

	async setOverlap(overlap: OverlapMode): Promise<void> {
		await this.#attempt(async () => {
			await this.backend.setOverlap(overlap);
			this.settings.change({ overlap });
		});
	}

	async restartEngine(): Promise<void> {
		await this.#attempt(() => this.backend.restartEngine());
	}

	/** Unloads the model, and says how much memory came back. */
	async unloadModel(): Promise<void> {
		const name = this.models.loaded?.name ?? t('models:theModel');
		const unloaded = await this.models.unload();
		if (!unloaded) return;
		const back = Math.max(0, unloaded.beforeBytes - unloaded.afterBytes);
		this.notices.say(t('models:unloadedWords', { name, size: bytes(back) }));
	}

	/** Loads a model at once if it fits; otherwise the Models screen shows the numbers first. */
	async pickModel(modelId: string): Promise<void> {
		await this.#attempt(async () => {
			const fit = await this.backend.checkModelFit(modelId, null);
			if (fit.verdict === 'fits' && !fit.replacesFirst) await this.models.begin(modelId, null, false);
			else this.showModels(modelId);
		});
	}

	/** Opens the Models screen, and there the load panel of `modelId` if one is named. */
	showModels(modelId: string | null = null) {
		this.screen = 'models';
		if (modelId !== null) this.models.ask(modelId);
	}

	/** Opens the settings at one of their parts. */
	showSettings(section: SettingsSection) {
		this.settingsSection = section;
		this.screen = 'settings';
	}

	/** Shows `screen`, or the chat if it is shown already. */
	toggleScreen(screen: Exclude<Screen, 'chat'>) {
		this.screen = this.screen === screen ? 'chat' : screen;
	}

	toggleDialog(dialog: WindowDialog) {
		this.dialog = this.dialog === dialog ? null : dialog;
	}

	/** Shows the tab that is `by` places further to the right, round the ends. */
	stepTab(by: 1 | -1) {
		const { open, activeId } = this.tabs;
		const at = open.findIndex((tab) => tab.id === activeId);
		this.showTabAt((at + by + open.length) % open.length);
	}

	/** Tabs whose answer is being written. */
	get answering(): number {
		return this.tabs.open.filter((tab) => tab.isAnswering).length;
	}

	toggleSidebar() {
		this.settings.change({ isSidebarOpen: !this.settings.value.isSidebarOpen });
	}

	toggleOverlay() {
		this.settings.change({ isOverlayOpen: !this.settings.value.isOverlayOpen });
	}

	/** Mode that the engine runs in; until it says so, the stored one. */
	get gateMode(): GateMode {
		return this.engine.status?.gateMode ?? this.settings.value.gateMode;
	}

	phaseOf(tab: ChatTab): TabPhase {
		const last = tab.messages[tab.messages.length - 1];
		const stream = tab.generation?.answer.phase ?? null;
		return tabPhase({
			row: this.engine.rowOf(tab.id),
			stream,
			isRunning: tab.isAnswering,
			lastState: last?.state ?? null,
		});
	}

	/** Mark of the tab's row while it generates. */
	markOf(tab: ChatTab): PathMark | null {
		if (!tab.isAnswering) return null;
		// The stream's own word counts until the engine's first report of the row.
		const gate = this.engine.rowOf(tab.id)?.gate ?? tab.generation?.answer.gate ?? null;
		return gate && pathMark(gate, (id) => this.conversations.titleOf(id));
	}

	/** What the tab's settings will do to the batch, in sentences; empty when it will be fused. */
	forecastOf(tab: ChatTab): string[] {
		// Another computer samples what a server answers.
		if (!tab.settings || tab.settings.remote) return [];
		return forecastPath(tab.settings, this.outlookOf(tab));
	}

	/** What a tab's row would meet in the engine now. */
	outlookOf(tab: ChatTab): BatchOutlook {
		const others = this.tabs.open
			.filter((other) => other !== tab && other.isAnswering)
			.flatMap(({ settings }) => (settings && !settings.remote ? [settings] : []));
		return { mode: this.gateMode, others, hasThinking: this.hasThinking };
	}

	/** Whether the loaded model thinks before it answers. */
	get hasThinking(): boolean {
		return this.engine.status?.model?.hasThinking ?? false;
	}

	sayFailure(thrown: unknown) {
		const failure = asFailure(thrown);
		this.notices.say(wordingOf(failure.code).title, { detail: failure.message, tone: 'error' });
	}

	#tellNews(changes: StatusChanges) {
		const nameOf = (modelId: string) => this.models.nameOf(modelId);
		const isScreenOpen = this.screen === 'models';
		for (const { text, leadsTo, ...how } of newsWords(changes, { nameOf, isScreenOpen })) {
			const run = () => this.showModels(leadsTo?.modelId);
			this.notices.say(text, { ...how, action: leadsTo && { label: leadsTo.label, run } });
		}
	}

	async #attempt(work: () => Promise<void>): Promise<void> {
		try {
			await work();
		} catch (thrown) {
			this.sayFailure(thrown);
		}
	}

	async #undelete(id: string, tab: ChatTab | null): Promise<void> {
		await this.#attempt(async () => {
			await this.conversations.restore(id);
			if (tab) this.showConversation(id);
		});
	}

	/** Sends what is typed in `from` in several tabs at once, and shows the answers beside each other. */
	async askTabs(from: ChatTab, ids: readonly string[]): Promise<void> {
		const { text } = from.draft;
		const asked = this.tabs.open.filter((tab) => ids.includes(tab.id));
		await Promise.all(asked.map((tab) => (tab === from ? tab.send() : tab.ask(text))));
		// Asked elsewhere only: it leaves the composer all the same.
		if (!asked.includes(from)) from.draft.write('');
		this.beside = { from: from.id, ids: asked.map(({ id }) => id) };
	}

	/** Opens the choice of answers that one question may get at once. */
	startSeveral(): boolean {
		if (this.screen !== 'chat' || !this.tabs.active?.isFree) return false;
		this.dialog = 'askSeveral';
		return true;
	}

	/** Whether a conversation is what fills the window. */
	isShown(id: string): boolean {
		return this.screen === 'chat' && this.tabs.activeId === id;
	}

	#noteAnswerEnd(id: string) {
		if (this.isShown(id) || !this.tabs.byId(id)) return;
		this.unread.mark(id);
		this.announcement = t('tabs:ended', { title: this.conversations.titleOf(id) });
	}

	#noteAnswer() {
		this.#refreshList();
		// Whoever asks needs no welcome.
		if (!this.settings.value.hasSeenWelcome) this.settings.change({ hasSeenWelcome: true });
	}

	#refreshList() {
		void this.#attempt(() => this.conversations.refresh());
	}

	#saveTabs() {
		this.settings.change({ openTabs: this.tabs.open.map((tab) => tab.id), activeTab: this.tabs.activeId });
	}
}

export const [getWorkspace, setWorkspace] = createContext<Workspace>();
