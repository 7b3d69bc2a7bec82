import { fireEvent, render, screen } from '@testing-library/svelte';
import userEvent from '@testing-library/user-event';
import { expect, it, vi } from 'vitest';
import MessageEditor from './MessageEditor.svelte';

function editor(isDoneByEnter: boolean, isWaiting = false) {
	const calls = { ondone: vi.fn(), oncancel: vi.fn() };
	const words = { label: 'Question', note: 'Stays as a version.', doneLabel: 'Send' };
	render(MessageEditor, { text: 'Before', isDoneByEnter, isWaiting, ...words, ...calls });
	return calls;
}

const area = () => screen.getByRole('textbox', { name: 'Question' });

it('is done by Enter, as the composer sends, and never in an input method', async () => {
	const { ondone } = editor(true);
	await userEvent.type(area(), ' and after');
	await fireEvent.keyDown(area(), { key: 'Enter', isComposing: true, keyCode: 229 });
	await fireEvent.keyDown(area(), { key: 'Enter', isComposing: false, keyCode: 229 });
	await fireEvent.keyDown(area(), { key: 'Enter', shiftKey: true, keyCode: 13 });
	expect(ondone).not.toHaveBeenCalled();
	await fireEvent.keyDown(area(), { key: 'Enter', keyCode: 13 });
	expect(ondone.mock.calls).toEqual([['Before and after']]);
});

it('writes lines with Enter where a text is long, and is done with Ctrl', async () => {
	const { ondone } = editor(false);
	await userEvent.type(area(), ' more');
	await fireEvent.keyDown(area(), { key: 'Enter', keyCode: 13 });
	expect(ondone).not.toHaveBeenCalled();
	await fireEvent.keyDown(area(), { key: 'Enter', ctrlKey: true, keyCode: 13 });
	expect(ondone).toHaveBeenCalledOnce();
});

it('is left by Escape, which goes no further', async () => {
	const { oncancel } = editor(true);
	const outside = vi.fn();
	window.addEventListener('keydown', outside);
	await fireEvent.keyDown(area(), { key: 'Escape', keyCode: 27 });
	window.removeEventListener('keydown', outside);
	expect(oncancel).toHaveBeenCalledOnce();
	expect(outside).not.toHaveBeenCalled();
});

it.each(['Before', '   '])('sends nothing that is %j', async (text) => {
	const { ondone } = editor(true);
	await userEvent.clear(area());
	await userEvent.type(area(), text);
	await fireEvent.keyDown(area(), { key: 'Enter', keyCode: 13 });
	expect(ondone).not.toHaveBeenCalled();
	expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Send' }).disabled).toBe(true);
});

it('waits while the tab is answering, and keeps what was written', async () => {
	const { ondone } = editor(true, true);
	await userEvent.type(area(), ' and after');
	await fireEvent.keyDown(area(), { key: 'Enter', keyCode: 13 });
	expect(ondone).not.toHaveBeenCalled();
	expect((area() as HTMLTextAreaElement).value).toBe('Before and after');
});
