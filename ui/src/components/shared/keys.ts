import { t } from '../../lib/i18n/language.svelte';

const macSigns = [
	['Mod+Shift+', '⇧⌘'],
	['Ctrl+Shift+', '⌃⇧'],
	['Mod+', '⌘'],
	['Ctrl+', '⌃'],
	['Shift+', '⇧'],
] as const;

/** Whether this computer is a Mac, whose keys do other things. */
export const platform = /^Mac/.test(globalThis.navigator?.platform ?? '') ? 'mac' : 'other';

/**
 * How keys are written on this computer, in the window's language: "⇧⌘P" on a Mac, "Ctrl+Shift+P" elsewhere. `keys`:
 * "Mod+Shift+P".
 */
export function shortcutLabel(keys: string, on: 'mac' | 'other' = platform): string {
	const signs =
		on === 'mac' ? macSigns.reduce((shown, [name, sign]) => shown.replaceAll(name, sign), keys) : keys;
	const printed: Record<string, string> = {
		Mod: t('commands:keyCtrl'),
		Ctrl: t('commands:keyCtrl'),
		Shift: t('commands:keyShift'),
		Enter: t('commands:keyEnter'),
		Escape: t('commands:keyEscape'),
		PageUp: t('commands:keyPageUp'),
		PageDown: t('commands:keyPageDown'),
	};
	return signs.replace(/Mod|Ctrl|Shift|Enter|Escape|PageUp|PageDown/g, (name) => printed[name] ?? name);
}
