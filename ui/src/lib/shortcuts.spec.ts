import { expect, it } from 'vitest';
import { isSendKey } from './chat/composerKeys';
import { shortcutOf, windowShortcuts, writingShortcuts, type Platform } from './shortcuts';

const plain = {
	key: '',
	code: '',
	ctrlKey: false,
	metaKey: false,
	shiftKey: false,
	altKey: false,
	isComposing: false,
	keyCode: 0,
	target: null,
};

/** The press that the table's way of writing stands for. */
function press(keys: string) {
	const key = keys.replace(/^(Mod\+|Ctrl\+)?(Shift\+)?/, '');
	const ctrlKey = /^(Mod|Ctrl)\+/.test(keys);
	return { ...plain, key, ctrlKey, shiftKey: /Shift\+/.test(keys) };
}

it.each([
	[{ key: 't', code: 'KeyT', ctrlKey: true }, 'newTab', 0],
	[{ key: 'w', code: 'KeyW', metaKey: true }, 'closeTab', 0],
	[{ key: '3', code: 'Digit3', ctrlKey: true }, 'showTab', 2],
	[{ key: '"', code: 'Digit3', ctrlKey: true }, 'showTab', 2],
	[{ key: 'P', code: 'KeyP', ctrlKey: true, shiftKey: true }, 'overlay', 0],
	[{ key: 'M', code: 'KeyM', metaKey: true, shiftKey: true }, 'models', 0],
	[{ key: 'Tab', code: 'Tab', ctrlKey: true, shiftKey: true }, 'previousTab', 0],
	[{ key: 'Escape', code: 'Escape' }, 'escape', 0],
	[{ key: '?', code: 'Slash', shiftKey: true }, 'sheet', 1],
	[{ key: '/', code: 'Digit7', ctrlKey: true, shiftKey: true }, 'sheet', 0],
	[{ key: '+', code: 'Equal', ctrlKey: true, shiftKey: true }, 'largerText', 0],
	[{ key: '=', code: 'Equal', ctrlKey: true }, 'largerText', 1],
	[{ key: '+', code: 'NumpadAdd', ctrlKey: true }, 'largerText', 0],
	[{ key: 'à', code: 'Digit0', ctrlKey: true }, 'usualText', 0],
	[{ key: 'е', code: 'KeyT', ctrlKey: true }, 'newTab', 0],
	[{ key: 'л', code: 'KeyK', ctrlKey: true }, 'palette', 0],
])('%j is %s', (event, action, index) => {
	expect(shortcutOf({ ...plain, ...event })).toEqual({ action, index });
});

it.each([
	['Escape in an input method', { key: 'Escape', isComposing: true }],
	['a letter alone', { key: 't', code: 'KeyT' }],
	['keys without a meaning', { key: 'z', code: 'KeyZ', ctrlKey: true }],
	['Alt beside it', { key: 't', code: 'KeyT', ctrlKey: true, altKey: true }],
	['a letter that lies where another lies elsewhere', { key: 'z', code: 'KeyW', ctrlKey: true }],
	['a question mark in a field', { key: '?', shiftKey: true, target: document.createElement('textarea') }],
])('%s is no shortcut', (_, event) => {
	expect(shortcutOf({ ...plain, ...event })).toBeNull();
});

it('Escape and keys with Ctrl count in a field too', () => {
	const target = document.createElement('input');
	expect(shortcutOf({ ...press('Escape'), target })?.action).toBe('escape');
	expect(shortcutOf({ ...press('Mod+T'), target })?.action).toBe('newTab');
});

it.each<[Platform, string | undefined, string | undefined]>([
	['other', 'sidebar', 'nextTab'],
	['mac', undefined, 'nextTab'],
])('on %s, Ctrl+B is %s: on a Mac it moves the caret', (platform, withB, withTab) => {
	expect(shortcutOf(press('Ctrl+B'), platform)?.action).toBe(withB);
	expect(shortcutOf(press('Ctrl+Tab'), platform)?.action).toBe(withTab);
});

it.each(
	windowShortcuts.flatMap(({ action, keys }) => keys.map((written, index) => ({ action, written, index }))),
)('$written does what the sheet says: $action', ({ action, written, index }) => {
	expect(shortcutOf(press(written))).toEqual({ action, index });
});

it('no two shortcuts clash, whichever way their keys are held', () => {
	const held = [...windowShortcuts, ...writingShortcuts].flatMap(({ keys }) =>
		keys.map((written) => written.replace(/^Ctrl\+/, 'Mod+').toLowerCase()),
	);
	expect(new Set(held).size).toBe(held.length);
});

it('Enter writes what the sheet says', () => {
	const entries = writingShortcuts.map(({ action, keys }) => [action, isSendKey(press(keys[0]))]);
	expect(entries).toEqual([
		['send', true],
		['newLine', false],
	]);
});
