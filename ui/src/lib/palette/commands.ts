import { gateModeWords, overlapWords } from '../engine/modes';
import { t } from '../i18n/language.svelte';
import type { GateMode, OverlapMode } from '../ipc/wire';
import { stepTextSize, usualTextSize } from '../settings/textSize';
import { themes, themeWords } from '../settings/theme';
import { keysOf, wordsOf, type WindowAction } from '../shortcuts';
import { runShortcut } from '../windowActions';
import type { Workspace } from '../workspace.svelte';
import { fileCommands, presetCommands, settingsCommands, tabPlaceCommands } from './frameCommands';
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
		...tabPlaceCommands(workspace),
		...presetCommands(workspace),
		...fileCommands(workspace),
		...viewCommands(workspace),
		...settingsCommands(workspace),
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
export function ofShortcut(
	workspace: Workspace,
	action: WindowAction,
	group: string,
	how: { title?: string; blockedBecause?: string | false | undefined } = {},
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
	const isAlone = tabs.open.length < 2 && t('commands:noOtherTab');
	return [
		ofShortcut(workspace, 'newTab', t('commands:groupTabs')),
		ofShortcut(workspace, 'closeTab', t('commands:groupTabs')),
		ofShortcut(workspace, 'nextTab', t('commands:groupTabs'), { blockedBecause: isAlone }),
		ofShortcut(workspace, 'previousTab', t('commands:groupTabs'), { blockedBecause: isAlone }),
		ofShortcut(workspace, 'askSeveral', t('commands:groupTabs'), {
			blockedBecause: tabs.active?.isAnswering && t('commands:tabAnswers'),
		}),
		{
			id: 'stopAnswer',
			title: t('commands:stopAnswer'),
			group: t('commands:groupTabs'),
			keys: null,
			blockedBecause: tabs.active?.isAnswering ? null : t('commands:noAnswer'),
			run: () => void tabs.active?.stop(),
		},
		{
			id: 'tabSettings',
			title: t('commands:tabSettings'),
			group: t('commands:groupTabs'),
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
		...ofShortcut(workspace, screen, t('commands:groupView')),
		blockedBecause: workspace.screen === screen ? t('commands:shownAlready') : null,
	});
	return [
		ofShortcut(workspace, 'search', t('commands:groupView')),
		open('models'),
		open('settings'),
		ofShortcut(workspace, 'sidebar', t('commands:groupView'), {
			title: isSidebarOpen ? t('commands:hideSidebar') : t('commands:showSidebar'),
		}),
		ofShortcut(workspace, 'overlay', t('commands:groupView'), {
			title: isOverlayOpen ? t('commands:hideOverlay') : t('commands:showOverlay'),
		}),
		ofShortcut(workspace, 'sheet', t('commands:groupView')),
		ofShortcut(workspace, 'largerText', t('commands:groupView'), {
			blockedBecause: isEnd(1) && t('commands:textLargest'),
		}),
		ofShortcut(workspace, 'smallerText', t('commands:groupView'), {
			blockedBecause: isEnd(-1) && t('commands:textSmallest'),
		}),
		ofShortcut(workspace, 'usualText', t('commands:groupView'), {
			blockedBecause: textSizePercent === usualTextSize && t('commands:textUsual'),
		}),
		...themes.map((value) => ({
			id: `theme-${value}`,
			title: t('commands:theme', { name: themeWords[value] }),
			group: t('commands:groupView'),
			keys: null,
			blockedBecause: theme === value ? t('commands:inUse') : null,
			run: () => settings.change({ theme: value }),
		})),
	];
}

function modelCommands(workspace: Workspace): Command[] {
	const { models } = workspace;
	const { load, status } = models;
	const loading = load && t('commands:isLoading', { name: models.nameOf(load.modelId) });
	const isLoaded = (modelId: string) => modelId === status?.loadedModelId && t('commands:isLoaded');
	return [
		...models.usable.map(({ modelId, name }) => ({
			id: `model-${modelId}`,
			title: t('commands:loadModel', { name }),
			group: t('commands:groupModels'),
			keys: null,
			blockedBecause: loading ?? (isLoaded(modelId) || null),
			run: () => void workspace.pickModel(modelId),
		})),
		{
			id: 'unloadModel',
			title: t('commands:unloadModel'),
			group: t('commands:groupModels'),
			keys: null,
			blockedBecause: loading ?? (status?.loadedModelId ? null : t('commands:noModel')),
			run: () => void workspace.unloadModel(),
		},
	];
}

function engineCommands(workspace: Workspace): Command[] {
	const overlap = workspace.engine.status?.overlap ?? workspace.settings.value.overlap;
	const inUse = t('commands:inUse');
	return [
		...(['strict', 'split', 'folded'] satisfies GateMode[]).map((mode) => ({
			id: `mode-${mode}`,
			title: t('commands:gateMode', { name: gateModeWords[mode].name }),
			group: t('commands:groupEngine'),
			keys: null,
			blockedBecause: workspace.gateMode === mode ? inUse : null,
			run: () => void workspace.setGateMode(mode),
		})),
		...(['adaptive', 'on', 'off'] satisfies OverlapMode[]).map((mode) => ({
			id: `overlap-${mode}`,
			title: t('commands:overlap', { name: overlapWords[mode].name }),
			group: t('commands:groupEngine'),
			keys: null,
			blockedBecause: overlap === mode ? inUse : null,
			run: () => void workspace.setOverlap(mode),
		})),
		{
			id: 'restartEngine',
			title: t('commands:restartEngine'),
			group: t('commands:groupEngine'),
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
		group: tabs.byId(id) ? t('commands:openConversation') : t('commands:conversation'),
		keys: null,
		blockedBecause: null,
		run: () => workspace.showConversation(id),
	}));
}
