import { expect, it } from 'vitest';
import { stubBackend } from '../testing/stubBackend';
import { ChatTab } from './chatTab.svelte';
import { DraftAttachments } from './draftAttachments.svelte';

it('keeps the order of files, and says which was refused while the others come', async () => {
	const backend = stubBackend();
	const { id } = await backend.createConversation();
	const attachments = new DraftAttachments(backend, id);
	await attachments.addFiles(['/home/me/notes.md', '/home/me/photo.jpg', '/home/me/main.rs']);
	expect(attachments.all.map(({ name }) => name)).toEqual(['notes.md', 'main.rs']);
	expect(attachments.refusals.map(({ name, failure }) => [name, failure.code])).toEqual([
		['photo.jpg', 'attachmentRefused'],
	]);
	expect(attachments.reading).toEqual([]);
	expect(attachments.tokens).toBeGreaterThan(10);
});

it('goes with the message that is sent, and is gone from the composer', async () => {
	const backend = stubBackend({}, { stepMs: 2 });
	const { id } = await backend.createConversation();
	const tab = new ChatTab(backend, id, () => {});
	await tab.open();
	await tab.attachments.addFiles(['/home/me/notes.md']);
	tab.draft.write('What changed?');
	await tab.send();
	expect(tab.attachments.all).toEqual([]);
	const [sent] = tab.messages[0]?.attachments ?? [];
	expect(sent?.name).toBe('notes.md');
	expect(await tab.attachments.read(sent?.id ?? '')).toContain('Tuesday');
});

it('comes back with the draft when the conversation is opened again', async () => {
	const backend = stubBackend();
	const { id } = await backend.createConversation();
	await new DraftAttachments(backend, id).addText('pasted.txt', 'long');
	const tab = new ChatTab(backend, id, () => {});
	await tab.open();
	expect(tab.attachments.all.map(({ name }) => name)).toEqual(['pasted.txt']);
	expect(tab.isBlank).toBe(false);
	await tab.attachments.remove(tab.attachments.all[0]?.id ?? '');
	expect((await backend.openConversation(id)).draftAttachments).toEqual([]);
});
