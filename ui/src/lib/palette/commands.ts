import { gateModeWords, overlapWords } from '../engine/modes';
import type { GateMode, OverlapMode } from '../ipc/wire';
import { stepTextSize, usualTextSize } from '../settings/textSize';
import { themeNames } from '../settings/theme';
import { keysOf, wordsOf, type WindowAction } from '../shortcuts';
import { runShortcut } from '../windowActions';
import type { Workspace } from '../workspace.svelte';
import { matchScore } from './match';

export interface Command {
	/** The same each time the list is made. */
	id: string;
	title: string;
	/** What kind of thing it is about; found by it, too. */
	group: string;
	/** Keys that do the same, as the table of shortcuts writes them. */
	keys: string | null;
	/** Why it cannot be run now; `null` if it can. */
	blockedBecause: string | null;
	run: () => void;
}

/** Lines that the palette shows at most. */
const shownCommands = 60;

/** Everything that can be done from here, in the order in which it is offered. */
export function commandsOf(workspace: Workspace): Command[] {
	return [
		...tabCommands(workspace),
		...viewCommands(workspace),
		...modelCommands(workspace),
		...engineCommands(workspace),
		...conversationCommands(workspace),
	];
}

/** The commands that match, best first; without a query all of them, those that were run lately first. */
export function findCommands(all: readonly Command[], query: string, recent: readonly string[]): Command[] {
	const typed = query.trim();
	const ranked = all.flatMap((command, index) => {
		const at = recent.indexOf(command.id);
		const lately = at < 0 ? 0 : 10 / (at + 1);
		const score = typed === '' ? 0 : matchScore(typed, `${command.title} ${command.group}`);
		return score === null ? [] : [{ command, index, score: score + lately }];
	});
	ranked.sort((a, b) => b.score - a.score || a.index - b.index);
	return ranked.slice(0, shownCommands).map(({ command }) => command);
}

/** A command that does what a shortcut does. */
function ofShortcut(
	workspace: Workspace,
	action: WindowAction,
	group: string,
	how: { title?: string; blockedBecause?: string | false } = {},
): Command {
	return {
		id: action,
		title: how.title ?? wordsOf(action),
		group,
		keys: keysOf(action),
		blockedBecause: how.blockedBecause || null,
		run: () => void runShortcut(workspace, { action, index: 0 }),
	};
}

function tabCommands(workspace: Workspace): Command[] {
	const { tabs } = workspace;
	const isAlone = tabs.open.length < 2 && 'There is no other tab';
	return [
		ofShortcut(workspace, 'newTab', 'Tabs'),
		ofShortcut(workspace, 'closeTab', 'Tabs'),
		ofShortcut(workspace, 'nextTab', 'Tabs', { blockedBecause: isAlone }),
		ofShortcut(workspace, 'previousTab', 'Tabs', { blockedBecause: isAlone }),
		{
			id: 'stopAnswer',
			title: 'Stop the answer',
			group: 'Tabs',
			keys: null,
			blockedBecause: tabs.active?.isAnswering ? null : 'No answer is being written in this tab',
			run: () => void tabs.active?.stop(),
		},
		{
			id: 'tabSettings',
			title: 'Settings of this tab',
			group: 'Tabs',
			keys: null,
			blockedBecause: null,
			run: () => {
				workspace.screen = 'chat';
				workspace.isTabSettingsOpen = true;
			},
		},
	];
}

function viewCommands(workspace: Workspace): Command[] {
	const { settings } = workspace;
	const { isSidebarOpen, isOverlayOpen, textSizePercent, theme } = settings.value;
	const isEnd = (by: 1 | -1) => stepTextSize(textSizePercent, by) === textSizePercent;
	const open = (screen: 'settings' | 'models') => ({
		...ofShortcut(workspace, screen, 'View'),
		blockedBecause: workspace.screen === screen ? 'It is shown already' : null,
	});
	return [
		ofShortcut(workspace, 'search', 'View'),
		open('models'),
		open('settings'),
		ofShortcut(workspace, 'sidebar', 'View', {
			title: isSidebarOpen ? 'Hide the sidebar of conversations' : 'Show the sidebar of conversations',
		}),
		ofShortcut(workspace, 'overlay', 'View', {
			title: isOverlayOpen ? 'Hide the performance overlay' : 'Show the performance overlay',
		}),
		ofShortcut(workspace, 'sheet', 'View'),
		ofShortcut(workspace, 'largerText', 'View', {
			blockedBecause: isEnd(1) && 'Text is as large as it gets',
		}),
		ofShortcut(workspace, 'smallerText', 'View', {
			blockedBecause: isEnd(-1) && 'Text is as small as it gets',
		}),
		ofShortcut(workspace, 'usualText', 'View', {
			blockedBecause: textSizePercent === usualTextSize && 'Text has its usual size',
		}),
		...themeNames.map(({ value, label }) => ({
			id: `theme-${value}`,
			title: `Theme: ${label}`,
			group: 'View',
			keys: null,
			blockedBecause: theme === value ? 'It is in use already' : null,
			run: () => settings.change({ theme: value }),
		})),
	];
}

function modelCommands(workspace: Workspace): Command[] {
	const { models } = workspace;
	const { load, status } = models;
	const loading = load && `${models.nameOf(load.modelId)} is being loaded`;
	const isLoaded = (modelId: string) => modelId === status?.loadedModelId && 'It is loaded already';
	return [
		...models.usable.map(({ modelId, name }) => ({
			id: `model-${modelId}`,
			title: `Load ${name}`,
			group: 'Models',
			keys: null,
			blockedBecause: loading ?? (isLoaded(modelId) || null),
			run: () => void workspace.pickModel(modelId),
		})),
		{
			id: 'unloadModel',
			title: 'Unload the model',
			group: 'Models',
			keys: null,
			blockedBecause: loading ?? (status?.loadedModelId ? null : 'No model is loaded'),
			run: () => void workspace.unloadModel(),
		},
	];
}

function engineCommands(workspace: Workspace): Command[] {
	const overlap = workspace.engine.status?.overlap ?? workspace.settings.value.overlap;
	const inUse = 'It is in use already';
	return [
		...(['strict', 'split', 'folded'] satisfies GateMode[]).map((mode) => ({
			id: `mode-${mode}`,
			title: `Batch mode: ${gateModeWords[mode].name}`,
			group: 'Engine',
			keys: null,
			blockedBecause: workspace.gateMode === mode ? inUse : null,
			run: () => void workspace.setGateMode(mode),
		})),
		...(['adaptive', 'on', 'off'] satisfies OverlapMode[]).map((mode) => ({
			id: `overlap-${mode}`,
			title: `Overlap: ${overlapWords[mode].name}`,
			group: 'Engine',
			keys: null,
			blockedBecause: overlap === mode ? inUse : null,
			run: () => void workspace.setOverlap(mode),
		})),
		{
			id: 'restartEngine',
			title: 'Restart the engine',
			group: 'Engine',
			keys: null,
			blockedBecause: null,
			run: () => void workspace.restartEngine(),
		},
	];
}

function conversationCommands(workspace: Workspace): Command[] {
	const { conversations, tabs } = workspace;
	return conversations.all.map(({ id }) => ({
		id: `conversation-${id}`,
		title: conversations.titleOf(id),
		group: tabs.byId(id) ? 'Open conversation' : 'Conversation',
		keys: null,
		blockedBecause: null,
		run: () => workspace.showConversation(id),
	}));
}
