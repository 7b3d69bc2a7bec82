import { stepTextSize, usualTextSize } from './settings/textSize';
import type { Shortcut, WindowAction } from './shortcuts';
import type { Workspace } from './workspace.svelte';

/** Does something, and says whether there was anything to do. */
type Run = (workspace: Workspace, index: number) => boolean;

const always =
	(run: (workspace: Workspace, index: number) => unknown): Run =>
	(workspace, index) => {
		run(workspace, index);
		return true;
	};

const runs: Record<WindowAction, Run> = {
	palette: always((workspace) => workspace.toggleDialog('palette')),
	sheet: always((workspace) => workspace.toggleDialog('sheet')),
	newTab: always((workspace) => workspace.newTab()),
	closeTab: always((workspace) => workspace.closeTab(workspace.tabs.activeId ?? '')),
	nextTab: always((workspace) => workspace.stepTab(1)),
	previousTab: always((workspace) => workspace.stepTab(-1)),
	showTab: always((workspace, index) => workspace.showTabAt(index)),
	moveTabLeft: moveTab(-1),
	moveTabRight: moveTab(1),
	renameTab: always((workspace) => {
		workspace.screen = 'chat';
		workspace.renamedTab = workspace.tabs.activeId;
	}),
	askSeveral: (workspace) => workspace.startSeveral(),
	search: always((workspace) => workspace.startSearch()),
	sidebar: always((workspace) => workspace.toggleSidebar()),
	overlay: always((workspace) => workspace.toggleOverlay()),
	models: always((workspace) => workspace.toggleScreen('models')),
	settings: always((workspace) => workspace.toggleScreen('settings')),
	escape: closeOrStop,
	largerText: always(({ settings }) => stepText(settings, 1)),
	smallerText: always(({ settings }) => stepText(settings, -1)),
	usualText: always(({ settings }) => settings.change({ textSizePercent: usualTextSize })),
};

function moveTab(by: 1 | -1): Run {
	return always((workspace) => workspace.moveTab(workspace.tabs.activeId ?? '', by));
}

/** Does what a shortcut stands for, and says whether there was anything to do. */
export function runShortcut(workspace: Workspace, { action, index }: Shortcut): boolean {
	return runs[action](workspace, index);
}

function stepText(settings: Workspace['settings'], by: 1 | -1) {
	settings.change({ textSizePercent: stepTextSize(settings.value.textSizePercent, by) });
}

/** Closes the innermost thing that is open; where nothing is, the answer under way stops. */
function closeOrStop(workspace: Workspace): boolean {
	const { models, tabs } = workspace;
	if (workspace.isTabSettingsOpen) workspace.isTabSettingsOpen = false;
	else if (workspace.screen === 'models' && models.panel) models.panel = null;
	else if (workspace.screen !== 'chat') workspace.screen = 'chat';
	else if (workspace.beside && workspace.beside.from === tabs.activeId) workspace.beside = null;
	else if (tabs.active?.isAnswering) void tabs.active.stop();
	else if (tabs.active?.compared) tabs.active.closeComparison();
	else return false;
	return true;
}
