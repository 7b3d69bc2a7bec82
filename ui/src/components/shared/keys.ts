const macSigns = [
	['Mod+Shift+', '⇧⌘'],
	['Ctrl+Shift+', '⌃⇧'],
	['Mod+', '⌘'],
	['Ctrl+', '⌃'],
	['Shift+', '⇧'],
] as const;

/** Whether this computer is a Mac, whose keys do other things. */
export const platform = /^Mac/.test(globalThis.navigator?.platform ?? '') ? 'mac' : 'other';

/** How keys are written on this computer: "⇧⌘P" on a Mac, "Ctrl+Shift+P" elsewhere. `keys`: "Mod+Shift+P". */
export function shortcutLabel(keys: string, on: 'mac' | 'other' = platform): string {
	if (on === 'other') return keys.replaceAll('Mod+', 'Ctrl+');
	return macSigns.reduce((written, [name, sign]) => written.replaceAll(name, sign), keys);
}
