import type { Backend } from '../backend';
import { notScripted, type ScriptedParts } from './parts';

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

export function transferCalls(_parts: ScriptedParts): Calls {
	return {
		pickExportFile: notScripted,
		pickExportFolder: notScripted,
		exportConversation: notScripted,
		exportLibrary: notScripted,
		readConversationMarkdown: notScripted,
		pickImportFiles: notScripted,
		importConversations: notScripted,
	};
}
