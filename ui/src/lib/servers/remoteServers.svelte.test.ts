import { expect, it, vi } from 'vitest';
import { CommandFailure } from '../ipc/backend';
import { stubBackend } from '../testing/stubBackend';
import { RemoteServers } from './remoteServers.svelte';

const change = { id: null, name: 'Lab', baseUrl: 'http://lab:8000', key: { kind: 'keep' } } as const;

it('asks a server for its models as soon as it is saved', async () => {
	const servers = new RemoteServers(stubBackend());
	const saved = await servers.save(change);
	expect(servers.byId(saved.id)?.baseUrl).toBe('http://lab:8000/v1');
	await vi.waitFor(() => expect(servers.answers[saved.id]?.kind).toBe('models'));
});

it('says why a server does not answer, and keeps the server', async () => {
	const servers = new RemoteServers(stubBackend());
	const saved = await servers.save({ ...change, baseUrl: 'http://offline:8000' });
	await vi.waitFor(() => expect(servers.answers[saved.id]?.kind).toBe('failed'));
	const answer = servers.answers[saved.id];
	expect(answer?.kind === 'failed' && answer.failure.code).toBe('remoteUnreachable');
	expect(servers.all).toHaveLength(1);
});

it('leaves the list as it was when an address is refused', async () => {
	const servers = new RemoteServers(stubBackend());
	await servers.save(change);
	await expect(servers.save({ ...change, baseUrl: 'lab' })).rejects.toMatchObject({ code: 'remoteAddress' });
	expect(servers.all.map(({ name }) => name)).toEqual(['Lab']);
});

it('reads the list again after it could not be read', async () => {
	const listRemoteServers = vi.fn().mockRejectedValueOnce(new CommandFailure('historyFailed', 'locked'));
	listRemoteServers.mockResolvedValue([]);
	const servers = new RemoteServers(stubBackend({ listRemoteServers }));
	await servers.read();
	expect(servers.failure?.code).toBe('historyFailed');
	await servers.read();
	expect([servers.failure, servers.isRead]).toEqual([null, true]);
});
