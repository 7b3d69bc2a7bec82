// @vitest-environment node
import { expect, it } from 'vitest';
import { shortcutLabel } from './keys';

it.each([
	['Mod+T', 'Ctrl+T', '⌘T'],
	['Mod+Shift+P', 'Ctrl+Shift+P', '⇧⌘P'],
	['Mod++', 'Ctrl++', '⌘+'],
	['Ctrl+Shift+Tab', 'Ctrl+Shift+Tab', '⌃⇧Tab'],
	['Mod+1 to Mod+9', 'Ctrl+1 to Ctrl+9', '⌘1 to ⌘9'],
	['Shift+Enter', 'Shift+Enter', '⇧Enter'],
])('%s is written %s, on a Mac %s', (keys, elsewhere, onMac) => {
	expect(shortcutLabel(keys, 'other')).toBe(elsewhere);
	expect(shortcutLabel(keys, 'mac')).toBe(onMac);
});
