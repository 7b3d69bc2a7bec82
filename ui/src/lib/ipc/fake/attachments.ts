import type { Backend } from '../backend';
import { notScripted, type ScriptedParts } from './parts';

type Calls = Pick<
	Backend,
	| 'pickAttachments'
	| 'attachFile'
	| 'attachText'
	| 'removeAttachment'
	| 'readAttachment'
	| 'countTokens'
	| 'watchFileDrops'
>;

export function attachmentCalls(_parts: ScriptedParts): Calls {
	return {
		pickAttachments: notScripted,
		attachFile: notScripted,
		attachText: notScripted,
		removeAttachment: notScripted,
		readAttachment: notScripted,
		countTokens: notScripted,
		watchFileDrops: () => () => {},
	};
}
