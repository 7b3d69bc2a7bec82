import { expect, it, vi } from 'vitest';
import { CommandFailure } from '../ipc/backend';
import type { HubSettings, HubSettingsChange } from '../ipc/wire';
import { stubBackend } from '../testing/stubBackend';
import { HubAccess } from './hubAccess.svelte';

const stored: HubSettings = {
	endpoint: 'https://hub.example',
	proxy: null,
	hasToken: true,
	folder: '/models',
};

function access() {
	const writeHubSettings = vi.fn(async (change: HubSettingsChange): Promise<HubSettings> => ({
		...stored,
		...change,
		hasToken: change.token?.kind !== 'forget',
	}));
	return {
		hub: new HubAccess(stubBackend({ readHubSettings: async () => stored, writeHubSettings })),
		writeHubSettings,
	};
}

it('keeps the token there is when none is typed', async () => {
	const { hub, writeHubSettings } = access();
	await hub.read();
	hub.proxy = ' http://proxy:8080 ';
	await hub.save();
	expect(writeHubSettings).toHaveBeenCalledWith({
		endpoint: 'https://hub.example',
		proxy: 'http://proxy:8080',
		token: null,
	});
	expect(hub.isSaved).toBe(true);
});

it('a token that was saved is not held any longer', async () => {
	const { hub, writeHubSettings } = access();
	await hub.read();
	hub.token = 'secret';
	await hub.save();
	expect(writeHubSettings.mock.lastCall?.[0].token).toEqual({ kind: 'set', token: 'secret' });
	expect(hub.token).toBe('');
});

it('forgets a token only when told to', async () => {
	const { hub, writeHubSettings } = access();
	await hub.read();
	await hub.forgetToken();
	expect(writeHubSettings.mock.lastCall?.[0].token).toEqual({ kind: 'forget' });
	expect(hub.stored?.hasToken).toBe(false);
});

it('keeps what was typed when saving fails', async () => {
	const { hub, writeHubSettings } = access();
	await hub.read();
	writeHubSettings.mockRejectedValueOnce(new CommandFailure('invalidSetting', 'endpoint: no address'));
	hub.endpoint = 'hub';
	hub.token = 'secret';
	await hub.save();
	expect(hub.failure?.message).toBe('endpoint: no address');
	expect([hub.endpoint, hub.token, hub.isSaved]).toEqual(['hub', 'secret', false]);
});
