import { CommandFailure, type Backend } from '../backend';
import type { LocalServerSettings, LocalServerStatus, RemoteServer, RemoteServerChange } from '../wire';
import type { ScriptedParts } from './parts';

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

const storageKey = 'braid-scripted-servers';
/** A port on which another program listens. */
const takenPort = 8080;

export function serverCalls({ call }: ScriptedParts): Calls {
	let servers = JSON.parse(sessionStorage.getItem(storageKey) ?? '[]') as RemoteServer[];
	let local: LocalServerStatus = {
		settings: { isEnabled: false, port: 11_535 },
		address: null,
		key: '',
		servedRequests: 0,
		failure: null,
	};
	let keys = 0;

	function keep(next: RemoteServer[]) {
		servers = next;
		sessionStorage.setItem(storageKey, JSON.stringify(servers));
	}

	function saveServer(change: RemoteServerChange): RemoteServer {
		const { id, name, baseUrl, key } = change;
		if (!/^https?:\/\/[^/]+/.test(baseUrl)) {
			throw new CommandFailure('remoteAddress', `“${baseUrl}” begins with neither http:// nor https://`);
		}
		const before = servers.find((server) => server.id === id);
		const place = key.kind === 'keep' ? (before?.key ?? 'none') : key.kind === 'set' ? 'keychain' : 'none';
		const saved: RemoteServer = {
			id: id ?? crypto.randomUUID(),
			name,
			baseUrl: /^https?:\/\/[^/]+\/?$/.test(baseUrl) ? `${baseUrl.replace(/\/$/, '')}/v1` : baseUrl,
			key: place,
		};
		keep(before ? servers.map((server) => (server.id === id ? saved : server)) : [...servers, saved]);
		return saved;
	}

	function modelsOf(id: string) {
		const server = servers.find((other) => other.id === id);
		if (!server) throw new CommandFailure('remoteUnknown', `server ${id}`);
		if (server.baseUrl.includes('offline'))
			throw new CommandFailure('remoteUnreachable', 'connection refused (os error 111)');
		if (server.baseUrl.includes('locked') && server.key === 'none')
			throw new CommandFailure('remoteAccess', '401: missing bearer token');
		return [
			{ id: 'qwen3-30b-a3b', contextTokens: 32_768 },
			{ id: 'gemma-3-27b-it', contextTokens: null },
		];
	}

	function writeLocal(settings: LocalServerSettings): LocalServerStatus {
		if (!Number.isInteger(settings.port) || settings.port < 1024 || settings.port > 65_535) {
			throw new CommandFailure('invalidSetting', `port: 1024 to 65535; it is ${settings.port}`);
		}
		const isTaken = settings.isEnabled && settings.port === takenPort;
		local = {
			...local,
			settings,
			key: local.key || (settings.isEnabled ? newKey() : ''),
			address: settings.isEnabled && !isTaken ? `http://127.0.0.1:${settings.port}/v1` : null,
			failure: isTaken ? { code: 'serverPortTaken', message: 'address already in use (os error 98)' } : null,
		};
		return local;
	}

	function newKey(): string {
		keys += 1;
		return `braid-${'k3y0fth1sc0mput3r'.repeat(2)}${keys}`;
	}

	return {
		listRemoteServers: () => call(() => servers),
		saveRemoteServer: (change) => call(() => saveServer(change)),
		deleteRemoteServer: (id) => call(() => keep(servers.filter((server) => server.id !== id))),
		listRemoteModels: (id) => call(() => modelsOf(id)),
		readLocalServer: () => call(() => local),
		writeLocalServer: (settings) => call(() => writeLocal(settings)),
		renewLocalServerKey: () => call(() => (local = { ...local, key: newKey() })),
	};
}
