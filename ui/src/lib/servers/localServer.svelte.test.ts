import { expect, it, vi } from 'vitest';
import { stubBackend } from '../testing/stubBackend';
import { exampleCall, LocalServer } from './localServer.svelte';

it('has an address and a key once it is on, and no address once it is off', async () => {
	const server = new LocalServer(stubBackend());
	await server.write({ isEnabled: true, port: 12_000 });
	expect(server.status).toMatchObject({ address: 'http://127.0.0.1:12000/v1', failure: null });
	expect(server.status?.key).not.toBe('');
	await server.write({ isEnabled: false, port: 12_000 });
	expect(server.status?.address).toBeNull();
});

it('keeps what stood when a port is refused, and says why', async () => {
	const server = new LocalServer(stubBackend());
	await server.write({ isEnabled: true, port: 12_000 });
	await server.write({ isEnabled: true, port: 80 });
	expect(server.failure?.code).toBe('invalidSetting');
	expect(server.status?.settings.port).toBe(12_000);
});

it('drops a status that was asked for before a change', async () => {
	vi.useFakeTimers();
	const backend = stubBackend();
	const slow = backend.readLocalServer();
	const server = new LocalServer({
		...backend,
		readLocalServer: async () => {
			await new Promise((resolve) => setTimeout(resolve, 1000));
			return slow;
		},
	});
	const stop = server.watch();
	const writing = server.write({ isEnabled: true, port: 12_000 });
	await vi.advanceTimersByTimeAsync(500);
	await writing;
	await vi.advanceTimersByTimeAsync(1000);
	stop();
	expect(server.status?.settings.isEnabled).toBe(true);
	vi.useRealTimers();
});

it('writes a call that names address and key', () => {
	const call = exampleCall('http://127.0.0.1:1/v1', 'k', 'm');
	expect(call).toContain('curl http://127.0.0.1:1/v1/chat/completions');
	expect(call).toContain('Bearer k');
	expect(call).toContain('"model":"m"');
	expect(exampleCall('a', 'k', "it's"), 'one quote cannot end the argument').toContain("it'\\''s");
});
