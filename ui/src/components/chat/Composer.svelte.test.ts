import { fireEvent, render, screen } from '@testing-library/svelte';
import { createRawSnippet } from 'svelte';
import { expect, it, vi } from 'vitest';
import Composer from './Composer.svelte';

const footer = createRawSnippet(() => ({ render: () => '<span></span>' }));

function composer(changes: Record<string, unknown> = {}) {
	const calls = {
		onwrite: vi.fn(),
		onsend: vi.fn(),
		onstop: vi.fn(),
		onattach: vi.fn(),
		onpastelong: vi.fn(),
		onseveral: vi.fn(),
	};
	render(Composer, {
		text: 'Hello',
		isAnswering: false,
		isStopping: false,
		isSending: false,
		blockedBecause: null,
		severalKeys: 'Mod+Shift+Enter',
		attachments: footer,
		footer,
		...calls,
		...changes,
	});
	return calls;
}

const area = () => screen.getByRole('textbox', { name: 'Message' });

it('sends with Enter', async () => {
	const { onsend } = composer();
	await fireEvent.keyDown(area(), { key: 'Enter', keyCode: 13 });
	expect(onsend).toHaveBeenCalledOnce();
});

it.each([
	['Shift+Enter', { key: 'Enter', shiftKey: true, keyCode: 13 }],
	['Enter while composing', { key: 'Enter', isComposing: true, keyCode: 229 }],
	['the Enter that ends a composition in WebKit', { key: 'Enter', isComposing: false, keyCode: 229 }],
])('does not send with %s', async (_, event) => {
	const { onsend } = composer();
	await fireEvent.keyDown(area(), event);
	expect(onsend).not.toHaveBeenCalled();
});

it.each([
	['nothing is typed', { text: '  ' }],
	['the message is being saved', { isSending: true }],
	['the tab is answering', { isAnswering: true }],
	['the model is loading', { blockedBecause: 'The model is still loading' }],
])('does not send while %s', async (_, changes) => {
	const { onsend } = composer(changes);
	await fireEvent.keyDown(area(), { key: 'Enter', keyCode: 13 });
	expect(onsend).not.toHaveBeenCalled();
});

it('offers Stop while the tab is answering', async () => {
	const { onstop } = composer({ isAnswering: true });
	await fireEvent.click(screen.getByRole('button', { name: 'Stop' }));
	expect(onstop).toHaveBeenCalledOnce();
});

it('offers to attach a long text that is pasted, and leaves a short one alone', async () => {
	const { onpastelong } = composer();
	const paste = (text: string) => fireEvent.paste(area(), { clipboardData: { getData: () => text } });
	await paste('short');
	expect(onpastelong).not.toHaveBeenCalled();
	await paste('long '.repeat(1000));
	expect(onpastelong).toHaveBeenCalledOnce();
});
