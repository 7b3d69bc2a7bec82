import { expect, it, vi } from 'vitest';
import { CommandFailure } from '../ipc/backend';
import type { ModelsStatus } from '../ipc/wire';
import { downloadOf, modelOf, modelsStatusOf } from '../testing/samples';
import { stubBackend } from '../testing/stubBackend';
import { ModelsState } from './models.svelte';

/** Models with a backend whose status the test says. */
function watched(calls: Parameters<typeof stubBackend>[0] = {}) {
	let tell: (status: ModelsStatus) => void = () => {};
	const onNews = vi.fn();
	const onFailure = vi.fn();
	const listModels = vi.fn(async () => [modelOf(), modelOf({ modelId: 'b', name: 'Model B' })]);
	const watchModels = async (onStatus: (status: ModelsStatus) => void) => void (tell = onStatus);
	const models = new ModelsState(stubBackend({ listModels, watchModels, ...calls }), { onNews, onFailure });
	models.start();
	return { models, onNews, onFailure, listModels, say: (status: ModelsStatus) => tell(status) };
}

const settled = () => new Promise((resolve) => setTimeout(resolve));

it('reads the list at the first status and when its revision grows, not otherwise', async () => {
	const { models, listModels, say } = watched();
	say(modelsStatusOf({ loadedModelId: 'a' }));
	await settled();
	expect(models.loaded?.name).toBe('Model A');
	say(modelsStatusOf({ loadedModelId: 'a', downloads: [downloadOf()] }));
	await settled();
	expect(listModels).toHaveBeenCalledOnce();
	say(modelsStatusOf({ listRevision: 2 }));
	await settled();
	expect(listModels).toHaveBeenCalledTimes(2);
});

it('tells news of a model only once the list names it', async () => {
	const { models, onNews, say } = watched();
	say(modelsStatusOf());
	await settled();
	onNews.mockImplementation(({ loadedModelId }) => expect(models.nameOf(loadedModelId)).toBe('Model B'));
	say(modelsStatusOf({ listRevision: 2, loadedModelId: 'b' }));
	await settled();
	expect(onNews).toHaveBeenCalledTimes(2);
});

it('closes the panel once the load has begun and keeps it when it was refused', async () => {
	const refuse = new CommandFailure('modelTooLarge', 'it needs 9 GiB');
	const loadModel = vi.fn(async () => {}).mockRejectedValueOnce(refuse);
	const { models, onFailure } = watched({ loadModel });
	models.ask('a');
	expect(await models.begin('a', 4096, false)).toBe(false);
	expect(models.panel).toEqual({ modelId: 'a', kind: 'load' });
	expect(onFailure).toHaveBeenCalledWith(refuse);
	expect(await models.begin('a', 4096, true)).toBe(true);
	expect(loadModel).toHaveBeenLastCalledWith('a', 4096, true);
	expect(models.panel).toBeNull();
});

it('unloads a model before it is deleted, and no other', async () => {
	const order: string[] = [];
	const unloadModel = async () => {
		order.push('unload');
		return { beforeBytes: 2, afterBytes: 1 };
	};
	const deleteModel = async (modelId: string) => void order.push(`delete ${modelId}`);
	const { models, say } = watched({ unloadModel, deleteModel });
	say(modelsStatusOf({ loadedModelId: 'a' }));
	await settled();
	expect(await models.delete('b')).toBe(true);
	expect(await models.delete('a')).toBe(true);
	expect(order).toEqual(['delete b', 'unload', 'delete a']);
});

it('says why the list cannot be read, and reads it again', async () => {
	const listModels = vi
		.fn(async () => [modelOf()])
		.mockRejectedValueOnce(new CommandFailure('internal', 'no permission'));
	const { models, say } = watched({ listModels });
	say(modelsStatusOf());
	await settled();
	expect(models.listFailure?.message).toBe('no permission');
	expect(models.entries).toBeNull();
	await models.refresh();
	expect(models.listFailure).toBeNull();
	expect(models.entries).toHaveLength(1);
});

it('counts the downloads that are not complete', async () => {
	const { models, say } = watched();
	const done = downloadOf({ downloadId: 'd2', phase: { kind: 'done', modelId: 'a' } });
	const paused = downloadOf({ downloadId: 'd3', phase: { kind: 'paused' } });
	say(modelsStatusOf({ downloads: [downloadOf(), done, paused] }));
	await settled();
	expect(models.pendingDownloads).toBe(2);
});
