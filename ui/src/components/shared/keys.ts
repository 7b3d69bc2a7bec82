/** How a shortcut is written on this computer: "⌘T" on a Mac, "Ctrl+T" elsewhere. `keys`: "T", "Shift+P". */
export function shortcutLabel(keys: string): string {
	const isMac = /^Mac/.test(navigator.platform);
	return isMac ? keys.replace(/Shift\+/, '⇧').replace(/^/, '⌘') : `Ctrl+${keys}`;
}
