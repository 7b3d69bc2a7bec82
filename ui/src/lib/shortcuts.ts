/** What a key does in the whole window. */
export type Shortcut =
	| { kind: 'newTab' | 'closeTab' | 'overlay' | 'sidebar' | 'settings' | 'models' | 'escape' }
	| { kind: 'showTab'; index: number }
	| { kind: 'step'; by: 1 | -1 };

type Key = Pick<
	KeyboardEvent,
	'key' | 'code' | 'ctrlKey' | 'metaKey' | 'shiftKey' | 'altKey' | 'isComposing' | 'keyCode'
>;

/** The shortcut of a key press, if it is one. Ctrl and Cmd count the same. */
export function shortcutOf(event: Key): Shortcut | null {
	if (event.isComposing || event.keyCode === 229 || event.altKey) return null;
	if (event.key === 'Escape') return { kind: 'escape' };
	if (!event.ctrlKey && !event.metaKey) return null;
	if (event.key === 'Tab') return { kind: 'step', by: event.shiftKey ? -1 : 1 };
	if (event.shiftKey) {
		if (event.code === 'KeyP') return { kind: 'overlay' };
		return event.code === 'KeyM' ? { kind: 'models' } : null;
	}
	// By place as well: some layouts need Shift for digits.
	const digit = /^Digit([1-9])$/.exec(event.code)?.[1] ?? /^[1-9]$/.exec(event.key)?.[0];
	if (digit) return { kind: 'showTab', index: Number(digit) - 1 };
	switch (event.key.toLowerCase()) {
		case 't':
			return { kind: 'newTab' };
		case 'w':
			return { kind: 'closeTab' };
		case 'b':
			return { kind: 'sidebar' };
		case ',':
			return { kind: 'settings' };
		default:
			return null;
	}
}
