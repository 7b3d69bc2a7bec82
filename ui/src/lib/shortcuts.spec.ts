// @vitest-environment node
import { expect, it } from 'vitest';
import { shortcutOf } from './shortcuts';

const plain = {
	key: '',
	code: '',
	ctrlKey: false,
	metaKey: false,
	shiftKey: false,
	altKey: false,
	isComposing: false,
	keyCode: 0,
};

it.each([
	[{ key: 't', code: 'KeyT', ctrlKey: true }, { kind: 'newTab' }],
	[{ key: 'w', code: 'KeyW', metaKey: true }, { kind: 'closeTab' }],
	[
		{ key: '3', code: 'Digit3', ctrlKey: true },
		{ kind: 'showTab', index: 2 },
	],
	[
		{ key: '"', code: 'Digit3', ctrlKey: true },
		{ kind: 'showTab', index: 2 },
	],
	[{ key: 'P', code: 'KeyP', ctrlKey: true, shiftKey: true }, { kind: 'overlay' }],
	[{ key: 'M', code: 'KeyM', metaKey: true, shiftKey: true }, { kind: 'models' }],
	[
		{ key: 'Tab', code: 'Tab', ctrlKey: true, shiftKey: true },
		{ kind: 'step', by: -1 },
	],
	[{ key: 'Escape', code: 'Escape' }, { kind: 'escape' }],
	[{ key: 'Escape', code: 'Escape', isComposing: true }, null],
	[{ key: 't', code: 'KeyT' }, null],
	[{ key: 'z', code: 'KeyZ', ctrlKey: true }, null],
])('%j is %j', (event, shortcut) => {
	expect(shortcutOf({ ...plain, ...event })).toEqual(shortcut);
});
