import { expect, it, vi } from 'vitest';
import { CommandFailure } from '../ipc/backend';
import { stubBackend } from '../testing/stubBackend';
import { fileNameOf, Transfer } from './transfer.svelte';

it.each([
	['How rainbows form', 'How rainbows form.md'],
	['a/b\\c: "d"?\n', 'a b c d.md'],
	['..', 'conversation.md'],
	['', 'conversation.md'],
	['日本語のタイトル', '日本語のタイトル.md'],
	['x'.repeat(200), `${'x'.repeat(60)}.md`],
])('a file for %j is called %j', (title, name) => {
	expect(fileNameOf(title, 'markdown')).toBe(name);
});

it('writes nothing when no place was chosen', async () => {
	const exportConversation = vi.fn();
	const transfer = new Transfer(stubBackend({ pickExportFile: async () => null, exportConversation }));
	expect(await transfer.exportOne('1', 'Title', 'json')).toBeNull();
	expect(exportConversation).not.toHaveBeenCalled();
});

it('tells what came and what was left out', async () => {
	const transfer = new Transfer(stubBackend());
	await transfer.chooseAndImport();
	expect(transfer.report?.imported).toHaveLength(2);
	expect(transfer.report?.skipped.map(({ reason }) => reason)).toEqual(['empty', 'unknownFormat']);
	await transfer.importFiles(['/x/conversations.json']);
	expect(transfer.report?.imported, 'nothing comes twice').toHaveLength(0);
});

it('can import again after an import failed', async () => {
	const importConversations = () => Promise.reject(new CommandFailure('historyFailed', 'locked'));
	const transfer = new Transfer(stubBackend({ importConversations }));
	await expect(transfer.importFiles(['/a'])).rejects.toMatchObject({ code: 'historyFailed' });
	expect(transfer.isImporting).toBe(false);
});
