// @vitest-environment node
import { expect, it } from 'vitest';
import { downloadOf, modelsStatusOf } from '../testing/samples';
import { changesBetween } from './statusChanges';

const nothing = {
	isListStale: false,
	loadedModelId: null,
	loadFailure: null,
	done: [],
	failed: [],
	imported: [],
	refused: [],
};
const load = { modelId: 'b', doneBytes: 5, totalBytes: 10 };
const problem = { code: 'modelUnusable' as const, detail: 'a tensor is missing' };

it('a first status asks for the list and tells no old news', () => {
	const after = modelsStatusOf({
		loadFailure: { modelId: 'b', problem },
		downloads: [downloadOf({ phase: { kind: 'done', modelId: 'c' } })],
	});
	expect(changesBetween(null, after)).toEqual({ ...nothing, isListStale: true });
});

it('progress is no news', () => {
	const before = modelsStatusOf({ load, downloads: [downloadOf({ doneBytes: 1 })] });
	const after = modelsStatusOf({
		load: { ...load, doneBytes: 9 },
		downloads: [downloadOf({ doneBytes: 2 })],
	});
	expect(changesBetween(before, after)).toEqual(nothing);
});

it('the list is stale when its revision grows', () => {
	const after = modelsStatusOf({ listRevision: 2 });
	expect(changesBetween(modelsStatusOf(), after).isListStale).toBe(true);
});

it('a load that ended well names the model', () => {
	const before = modelsStatusOf({ load, loadedModelId: 'a' });
	expect(changesBetween(before, modelsStatusOf({ loadedModelId: 'b' })).loadedModelId).toBe('b');
});

it('the same model loaded anew is news as well', () => {
	const before = modelsStatusOf({ load, loadedModelId: 'b', loadedContextTokens: 4096 });
	const after = modelsStatusOf({ loadedModelId: 'b', loadedContextTokens: 2048 });
	expect(changesBetween(before, after).loadedModelId).toBe('b');
});

it.each([
	['cancelled', modelsStatusOf({ loadedModelId: 'a' })],
	['failed', modelsStatusOf({ loadedModelId: 'a', loadFailure: { modelId: 'b', problem } })],
])('a load that was %s leaves the old model and claims nothing', (_, after) => {
	const changes = changesBetween(modelsStatusOf({ load, loadedModelId: 'a' }), after);
	expect(changes.loadedModelId).toBeNull();
	expect(changes.loadFailure).toBe(after.loadFailure);
});

it('a model loaded anew that was cancelled claims nothing', () => {
	const before = modelsStatusOf({ load, loadedModelId: 'b', loadedContextTokens: 4096 });
	const after = modelsStatusOf({ loadedModelId: 'b', loadedContextTokens: 4096 });
	expect(changesBetween(before, after).loadedModelId).toBeNull();
});

it('a failure is told once', () => {
	const failed = modelsStatusOf({ loadFailure: { modelId: 'b', problem } });
	expect(changesBetween(failed, structuredClone(failed)).loadFailure).toBeNull();
});

it('an import that is gone has ended with a model if the list grew, and was cancelled otherwise', () => {
	const running = { importId: 'i1', source: '/x/tiny.gguf', doneBytes: 1, totalBytes: 2, problem: null };
	const before = modelsStatusOf({ imports: [running] });
	expect(changesBetween(before, modelsStatusOf({ listRevision: 2 })).imported).toEqual([running]);
	expect(changesBetween(before, modelsStatusOf()).imported).toEqual([]);
});

it('a refused import is told once', () => {
	const running = { importId: 'i1', source: '/x/tiny.gguf', doneBytes: 1, totalBytes: 2, problem: null };
	const before = modelsStatusOf({ imports: [running] });
	const after = modelsStatusOf({ imports: [{ ...running, problem }] });
	expect(changesBetween(before, after).refused).toEqual(after.imports);
	expect(changesBetween(after, structuredClone(after))).toEqual(nothing);
});

it('downloads are told when they end, not while they stay so', () => {
	const running = modelsStatusOf({ downloads: [downloadOf({})] });
	const done = modelsStatusOf({ downloads: [downloadOf({ phase: { kind: 'done', modelId: 'c' } })] });
	const failed = modelsStatusOf({ downloads: [downloadOf({ phase: { kind: 'failed', problem } })] });
	expect(changesBetween(running, done).done).toEqual(done.downloads);
	expect(changesBetween(done, structuredClone(done)).done).toEqual([]);
	expect(changesBetween(running, failed).failed).toEqual(failed.downloads);
	expect(changesBetween(failed, running)).toEqual(nothing);
});
