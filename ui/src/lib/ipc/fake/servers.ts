import type { Backend } from '../backend';
import { notScripted, type ScriptedParts } from './parts';

type Calls = Pick<
	Backend,
	| 'listRemoteServers'
	| 'saveRemoteServer'
	| 'deleteRemoteServer'
	| 'listRemoteModels'
	| 'readLocalServer'
	| 'writeLocalServer'
	| 'renewLocalServerKey'
>;

export function serverCalls(_parts: ScriptedParts): Calls {
	return {
		listRemoteServers: notScripted,
		saveRemoteServer: notScripted,
		deleteRemoteServer: notScripted,
		listRemoteModels: notScripted,
		readLocalServer: notScripted,
		writeLocalServer: notScripted,
		renewLocalServerKey: notScripted,
	};
}
