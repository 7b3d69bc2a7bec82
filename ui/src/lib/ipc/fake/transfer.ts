import { CommandFailure, type Backend } from '../backend';
import type { ConversationImportReport, ConversationSummary } from '../wire';
import { pathOf } from './history';
import type { ScriptedParts } from './parts';

type Calls = Pick<
	Backend,
	| 'pickExportFile'
	| 'pickExportFolder'
	| 'exportConversation'
	| 'exportLibrary'
	| 'readConversationMarkdown'
	| 'pickImportFiles'
	| 'importConversations'
>;

export function transferCalls({ call, scenario, history, conversation }: ScriptedParts): Calls {
	function write(path: string) {
		if (scenario.transferFails)
			throw new CommandFailure(scenario.transferFails, `${path}: no space left (scripted)`);
	}

	function markdownOf(id: string): string {
		const stored = conversation(id);
		const turns = pathOf(stored).map(({ role, text }) => `## ${role}\n\n${text}\n`);
		return [`# ${stored.summary.title}\n`, ...turns].join('\n');
	}

	function importFrom(path: string, report: ConversationImportReport) {
		const file = path.split('/').at(-1) ?? path;
		const skip = (title: string | null, reason: 'unknownFormat' | 'alreadyHere' | 'empty', detail: string) =>
			report.skipped.push({ file, title, reason, detail });
		if (!/\.(json|zip)$/.test(file)) return skip(null, 'unknownFormat', 'it begins with “%PDF-1.7”');
		const source = file.includes('conversation.json') ? 'lmStudio' : 'openAi';
		const titles = source === 'lmStudio' ? ['Packing list'] : ['Trip to Lisbon', 'Sourdough'];
		for (const title of titles) {
			if (history.list().some((summary) => summary.title === title)) {
				skip(title, 'alreadyHere', 'imported before, the same since');
				continue;
			}
			const stored = history.add();
			stored.summary = { ...stored.summary, title, preview: title, messageCount: 4 } as ConversationSummary;
			const conversationId = stored.summary.id;
			const leftOutParts = title === 'Trip to Lisbon' ? 2 : 0;
			report.imported.push({ conversationId, source, messages: 4, leftOutParts });
		}
		if (source === 'openAi') skip('Untitled', 'empty', 'it has a system message only');
	}

	return {
		pickExportFile: (suggestedName) => call(() => `/home/me/Documents/${suggestedName}`),
		pickExportFolder: () => call(() => '/home/me/Documents/Braid'),
		exportConversation: (id, _format, path) =>
			call(() => {
				conversation(id);
				write(path);
				return { path, conversations: 1, unreadable: 0 };
			}),
		exportLibrary: (_format, path) =>
			call(() => {
				write(path);
				return { path, conversations: history.list().length, unreadable: 0 };
			}),
		readConversationMarkdown: (id) => call(() => markdownOf(id)),
		pickImportFiles: () =>
			call(() => ['/home/me/Downloads/conversations.json', '/home/me/Downloads/invoice.pdf']),
		importConversations: (paths) =>
			call(() => {
				const report: ConversationImportReport = { imported: [], skipped: [] };
				for (const path of paths) importFrom(path, report);
				return report;
			}),
	};
}
