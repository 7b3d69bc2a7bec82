import type { Backend } from '../backend';
import { notScripted, type ScriptedParts } from './parts';

type Calls = Pick<
	Backend,
	| 'editMessage'
	| 'continueAnswer'
	| 'branchAnswer'
	| 'fanOut'
	| 'keepAnswer'
	| 'writeAnswerVersion'
	| 'readVersions'
	| 'saveScroll'
>;

export function versionCalls(_parts: ScriptedParts): Calls {
	return {
		editMessage: notScripted,
		continueAnswer: notScripted,
		branchAnswer: notScripted,
		fanOut: notScripted,
		keepAnswer: notScripted,
		writeAnswerVersion: notScripted,
		readVersions: notScripted,
		saveScroll: async () => {},
	};
}
