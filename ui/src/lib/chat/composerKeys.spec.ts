// @vitest-environment node
import { expect, it } from 'vitest';
import { isSendKey } from './composerKeys';

const enter = { key: 'Enter', shiftKey: false, isComposing: false, keyCode: 13 };

it.each([
	['Enter', enter, true],
	['Shift+Enter', { ...enter, shiftKey: true }, false],
	['Enter inside a composition', { ...enter, isComposing: true }, false],
	['the Enter that ends a composition in WebKit', { ...enter, keyCode: 229 }, false],
	['another key', { ...enter, key: 'a', keyCode: 65 }, false],
])('%s sends: %#', (_, event, isSent) => {
	expect(isSendKey(event)).toBe(isSent);
});
