import { t, wordsFor } from './i18n/language.svelte';
import type { WordKey } from './i18n/catalogue';

/** What keys do in the whole window. */
export type WindowAction =
	| 'palette'
	| 'sheet'
	| 'newTab'
	| 'closeTab'
	| 'nextTab'
	| 'previousTab'
	| 'showTab'
	| 'moveTabLeft'
	| 'moveTabRight'
	| 'renameTab'
	| 'askSeveral'
	| 'search'
	| 'sidebar'
	| 'overlay'
	| 'models'
	| 'settings'
	| 'escape'
	| 'largerText'
	| 'smallerText'
	| 'usualText';

/** What keys do while a message is written; the field itself does it. */
export type WritingAction = 'send' | 'newLine';

export type ShortcutGroup = 'general' | 'tabs' | 'view' | 'writing';

interface Entry<A> {
	action: A;
	group: ShortcutGroup;
	/**
	 * Key presses that do it, the one to be shown first. `Mod` is Cmd on a Mac and Ctrl elsewhere; `Ctrl` is Ctrl
	 * everywhere. A sign stands for itself, whether the layout needs Shift for it or not.
	 */
	keys: readonly [string, ...string[]];
	/** How its keys are shown where the first does not say it all. */
	shown?: WordKey;
}

/** The only place that says what keys do in the window. */
export const windowShortcuts: readonly Entry<WindowAction>[] = [
	{ action: 'palette', group: 'general', keys: ['Mod+K'] },
	{
		action: 'sheet',
		group: 'general',
		keys: ['Mod+/', '?'],
		shown: 'commands:sheetKeys',
	},
	{ action: 'askSeveral', group: 'general', keys: ['Mod+Shift+Enter'] },
	{ action: 'search', group: 'general', keys: ['Mod+F'] },
	{ action: 'settings', group: 'general', keys: ['Mod+,'] },
	{ action: 'models', group: 'general', keys: ['Mod+Shift+M'] },
	{ action: 'escape', group: 'general', keys: ['Escape'] },
	{ action: 'newTab', group: 'tabs', keys: ['Mod+T'] },
	{ action: 'closeTab', group: 'tabs', keys: ['Mod+W'] },
	{ action: 'nextTab', group: 'tabs', keys: ['Ctrl+Tab'] },
	{ action: 'previousTab', group: 'tabs', keys: ['Ctrl+Shift+Tab'] },
	{
		action: 'showTab',
		group: 'tabs',
		keys: ['Mod+1', 'Mod+2', 'Mod+3', 'Mod+4', 'Mod+5', 'Mod+6', 'Mod+7', 'Mod+8', 'Mod+9'],
		shown: 'commands:showTabKeys',
	},
	{ action: 'moveTabLeft', group: 'tabs', keys: ['Ctrl+Shift+PageUp'] },
	{ action: 'moveTabRight', group: 'tabs', keys: ['Ctrl+Shift+PageDown'] },
	{ action: 'renameTab', group: 'tabs', keys: ['F2'] },
	{ action: 'sidebar', group: 'view', keys: ['Mod+B'] },
	{ action: 'overlay', group: 'view', keys: ['Mod+Shift+P'] },
	{ action: 'largerText', group: 'view', keys: ['Mod++', 'Mod+='] },
	{ action: 'smallerText', group: 'view', keys: ['Mod+-'] },
	{ action: 'usualText', group: 'view', keys: ['Mod+0'] },
];

/** What the field of a message does with keys; `isSendKey` decides which of the two an Enter is. */
export const writingShortcuts: readonly Entry<WritingAction>[] = [
	{ action: 'send', group: 'writing', keys: ['Enter'] },
	{ action: 'newLine', group: 'writing', keys: ['Shift+Enter'] },
];

export type Platform = 'mac' | 'other';

export interface Shortcut {
	action: WindowAction;
	/** Which of its keys was pressed, from 0: for `showTab` the place of the tab. */
	index: number;
}

type Press = Pick<
	KeyboardEvent,
	'key' | 'code' | 'ctrlKey' | 'metaKey' | 'shiftKey' | 'altKey' | 'isComposing' | 'keyCode' | 'target'
>;

const byPress = new Map<string, Shortcut>(
	windowShortcuts.flatMap(({ action, keys }) =>
		keys.map((shown, index): [string, Shortcut] => [shown.toLowerCase(), { action, index }]),
	),
);

/** The shortcut of a key press, if it is one. */
export function shortcutOf(event: Press, platform: Platform = 'other'): Shortcut | null {
	if (event.isComposing || event.keyCode === 229 || event.altKey) return null;
	for (const name of namesOf(event)) {
		for (const held of heldWith(event, name, platform)) {
			const found = byPress.get(held + name);
			if (found && (held !== '' || isNoText(name) || !isField(event.target))) return found;
		}
	}
	return null;
}

/** Keys of an action as the table writes them. */
export function keysOf(action: WindowAction): string {
	return entryOf(action).keys[0];
}

/** What the entries of a group are about. */
export const groupWords = wordsFor<ShortcutGroup>({
	general: 'commands:groupGeneral',
	tabs: 'commands:groupTabs',
	view: 'commands:groupView',
	writing: 'commands:groupWriting',
});

/** What an action does, as the sheet, the palette and tooltips say it. */
export function wordsOf(action: WindowAction | WritingAction): string {
	return t(`commands:${action}`);
}

function entryOf(action: WindowAction): Entry<WindowAction> {
	const found = windowShortcuts.find((entry) => entry.action === action);
	if (!found) throw new Error(`the table has no entry for ${action}`);
	return found;
}

/** What a key is called: by what is printed on it, then by its place. */
function namesOf(event: Press): string[] {
	const printed = event.key.toLowerCase();
	// Some layouts need Shift for digits, others have no Latin letters.
	const digit = event.shiftKey ? null : /^Digit(\d)$/.exec(event.code);
	const letter = printed > '\x7f' ? /^Key([A-Z])$/.exec(event.code) : null;
	const place = digit?.[1] ?? letter?.[1]?.toLowerCase();
	return place === undefined ? [printed] : [printed, place];
}

/** The modifiers of a press as the table may write them. */
function heldWith(event: Press, name: string, platform: Platform): string[] {
	const isSign = name.length === 1 && !/[\p{L}\d]/u.test(name);
	const shift = event.shiftKey && !isSign ? 'shift+' : '';
	if (!event.ctrlKey && !event.metaKey) return [shift];
	// On a Mac, Ctrl with a letter moves the caret of a field.
	const isMod = platform === 'mac' ? event.metaKey : true;
	return [...(isMod ? [`mod+${shift}`] : []), ...(event.ctrlKey ? [`ctrl+${shift}`] : [])];
}

/** Keys that write nothing into a field. */
function isNoText(name: string): boolean {
	return name === 'escape' || /^f\d+$/.test(name);
}

function isField(target: EventTarget | null): boolean {
	if (!(target instanceof HTMLElement)) return false;
	if (target instanceof HTMLInputElement) return !/^(radio|checkbox|button|range)$/.test(target.type);
	return (
		target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable
	);
}
