import { expect, it, vi } from 'vitest';
import { CommandFailure } from '../ipc/backend';
import { stubBackend } from '../testing/stubBackend';
import { ImportFlow } from './importFlow.svelte';

it('a folder waits for the decision between copy and reference', async () => {
	const importModelFolder = vi.fn(async () => 'i1');
	const flow = new ImportFlow(stubBackend({ pickModelFolder: async () => '/x/tiny', importModelFolder }));
	await flow.pickFolder();
	expect(flow.folder).toBe('/x/tiny');
	expect(importModelFolder).not.toHaveBeenCalled();
	await flow.importFolder('reference');
	expect(importModelFolder).toHaveBeenCalledWith('/x/tiny', 'reference');
	expect(flow.folder).toBeNull();
});

it('a dialog that is closed imports nothing', async () => {
	const importGguf = vi.fn(async () => 'i1');
	const flow = new ImportFlow(
		stubBackend({ pickModelFolder: async () => null, pickGgufFile: async () => null, importGguf }),
	);
	await flow.pickFolder();
	await flow.pickGguf();
	expect(flow.folder).toBeNull();
	expect(importGguf).not.toHaveBeenCalled();
	expect(flow.failure).toBeNull();
});

it('a refusal is kept until the next try', async () => {
	const importGguf = vi.fn(async () => 'i1');
	importGguf.mockRejectedValueOnce(new CommandFailure('importRefused', 'Q4_K'));
	const flow = new ImportFlow(stubBackend({ pickGgufFile: async () => '/x/a.gguf', importGguf }));
	await flow.pickGguf();
	expect(flow.failure?.message).toBe('Q4_K');
	await flow.pickGguf();
	expect(flow.failure).toBeNull();
	expect(flow.isStarting).toBe(false);
});
