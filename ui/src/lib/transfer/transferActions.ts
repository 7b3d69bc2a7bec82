import { copyText } from '../../components/shared/clipboard';
import { t } from '../i18n/language.svelte';
import type { ExportFormat } from '../ipc/wire';
import type { Workspace } from '../workspace.svelte';

/** Writes one conversation to a file of the person's choice, and says where it is. */
export async function exportConversation(
	workspace: Workspace,
	id: string,
	format: ExportFormat,
): Promise<void> {
	await attempt(workspace, async () => {
		const title = workspace.conversations.titleOf(id);
		const report = await workspace.transfer.exportOne(id, title, format);
		if (report) workspace.notices.say(t('transfer:exportedOne', { path: report.path }));
	});
}

/** Writes every conversation, and says how many. */
export async function exportLibrary(workspace: Workspace, format: ExportFormat): Promise<void> {
	await attempt(workspace, async () => {
		const report = await workspace.transfer.exportAll(format);
		if (!report) return;
		const { conversations, unreadable, path } = report;
		const detail = unreadable > 0 ? t('transfer:unreadableHere', { count: unreadable }) : null;
		workspace.notices.say(t('transfer:exported', { count: conversations, path }), { detail });
	});
}

/** Imports files, chosen by the person if none are given, and shows what came. */
export async function importFiles(workspace: Workspace, paths: string[] | null = null): Promise<void> {
	await attempt(workspace, async () => {
		if (paths === null) await workspace.transfer.chooseAndImport();
		else await workspace.transfer.importFiles(paths);
		await workspace.conversations.refresh();
	});
}

/** Puts what is read of a conversation on the clipboard. */
export async function copyMarkdown(workspace: Workspace, id: string): Promise<void> {
	await attempt(workspace, async () => {
		const markdown = await workspace.backend.readConversationMarkdown(id);
		if (await copyText(markdown)) workspace.notices.say(t('transfer:copiedMarkdown'));
	});
}

async function attempt(workspace: Workspace, work: () => Promise<void>): Promise<void> {
	try {
		await work();
	} catch (thrown) {
		workspace.sayFailure(thrown);
	}
}
