import { t } from './i18n/language.svelte';
import type { MenuItem, MenuWords } from './ipc/wire';
import type { WindowAction } from './shortcuts';
import { runShortcut } from './windowActions';
import type { Workspace } from './workspace.svelte';

/** Every entry of the menu bar; a wire type that gains one does not compile until it has words. */
const items: Record<MenuItem, true> = {
	about: true,
	services: true,
	hide: true,
	hideOthers: true,
	showAll: true,
	quit: true,
	undo: true,
	redo: true,
	cut: true,
	copy: true,
	paste: true,
	selectAll: true,
	fullScreen: true,
	minimise: true,
	zoom: true,
	closeWindow: true,
	newTab: true,
	closeTab: true,
	nextTab: true,
	previousTab: true,
	search: true,
	palette: true,
	settings: true,
	models: true,
	sidebar: true,
	overlay: true,
	largerText: true,
	smallerText: true,
	usualText: true,
	sheet: true,
	diagnostics: true,
};

/** The menu bar's words in the window's language. */
export function menuWords(): MenuWords {
	return {
		file: t('menu:fileMenu'),
		edit: t('menu:editMenu'),
		view: t('menu:viewMenu'),
		window: t('menu:windowMenu'),
		help: t('menu:helpMenu'),
		items: (Object.keys(items) as MenuItem[]).map((item) => ({ item, text: t(`menu:${item}`) })),
	};
}

const actions: Partial<Record<MenuItem, WindowAction>> = {
	newTab: 'newTab',
	closeTab: 'closeTab',
	nextTab: 'nextTab',
	previousTab: 'previousTab',
	search: 'search',
	palette: 'palette',
	settings: 'settings',
	models: 'models',
	sidebar: 'sidebar',
	overlay: 'overlay',
	largerText: 'largerText',
	smallerText: 'smallerText',
	usualText: 'usualText',
	sheet: 'sheet',
};

/** Does what was chosen in the menu bar, as its key would. */
export function runMenuItem(workspace: Workspace, item: MenuItem) {
	const action = actions[item];
	if (action) runShortcut(workspace, { action, index: 0 });
	else if (item === 'diagnostics') workspace.showSettings('help');
}
