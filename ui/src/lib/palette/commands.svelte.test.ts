import { expect, it, vi } from 'vitest';
import { Notices } from '../notices.svelte';
import { windowShortcuts } from '../shortcuts';
import { modelOf, modelsStatusOf, statusOf } from '../testing/samples';
import { stubBackend } from '../testing/stubBackend';
import { Workspace } from '../workspace.svelte';
import { commandsOf, findCommands } from './commands';

async function opened(calls: Parameters<typeof stubBackend>[0] = {}) {
	const backend = stubBackend(calls, { history: 'four' });
	const start = await backend.startApp();
	const workspace = new Workspace(backend, start, new Notices());
	await workspace.open(start);
	workspace.models.entries = [modelOf(), modelOf({ modelId: 'b', name: 'Model B' })];
	workspace.models.status = modelsStatusOf({ loadedModelId: 'a' });
	const of = (id: string) => {
		const found = commandsOf(workspace).find((command) => command.id === id);
		if (!found) throw new Error(`there is a command ${id}`);
		return found;
	};
	return { workspace, of };
}

it('every shortcut of the window is a command, but those that mean nothing in a list', async () => {
	const { workspace } = await opened();
	const ids = new Set(commandsOf(workspace).map(({ id }) => id));
	const missing = windowShortcuts.map(({ action }) => action).filter((action) => !ids.has(action));
	expect(missing).toEqual(['palette', 'escape', 'showTab']);
	expect(ids.size, 'no two commands are called alike').toBe(commandsOf(workspace).length);
});

it('what cannot be done now says why', async () => {
	const { workspace, of } = await opened();
	expect(of('model-a').blockedBecause).toBe('It is loaded already');
	expect(of('model-b').blockedBecause).toBeNull();
	expect(of('stopAnswer').blockedBecause).toContain('No answer');
	workspace.engine.status = statusOf({ gateMode: 'folded', overlap: 'off' });
	expect(['strict', 'split', 'folded'].map((mode) => of(`mode-${mode}`).blockedBecause === null)).toEqual([
		true,
		true,
		false,
	]);
	expect(of('overlap-off').blockedBecause).not.toBeNull();
	workspace.settings.change({ textSizePercent: 150 });
	expect(of('largerText').blockedBecause).toContain('as large as it gets');
	expect(of('smallerText').blockedBecause).toBeNull();
	workspace.models.status = modelsStatusOf({
		loadedModelId: 'a',
		load: { modelId: 'b', doneBytes: 1, totalBytes: 2 },
	});
	expect(of('model-b').blockedBecause).toBe('Model B is being loaded');
	expect(of('unloadModel').blockedBecause).toBe('Model B is being loaded');
});

it('commands do what they say', async () => {
	const setGateMode = vi.fn(async () => {});
	const setOverlap = vi.fn(async () => {});
	const { workspace, of } = await opened({ setGateMode, setOverlap });
	of('mode-strict').run();
	expect(setGateMode).toHaveBeenCalledExactlyOnceWith('strict');
	of('overlap-on').run();
	expect(setOverlap).toHaveBeenCalledExactlyOnceWith('on');
	of('theme-dark').run();
	of('largerText').run();
	of('sidebar').run();
	expect(workspace.settings.value).toMatchObject({
		theme: 'dark',
		textSizePercent: 110,
		isSidebarOpen: false,
	});
	of('models').run();
	expect(workspace.screen).toBe('models');
	of('conversation-3').run();
	expect([workspace.screen, workspace.tabs.activeId]).toEqual(['chat', '3']);
	of('nextTab').run();
	expect(workspace.tabs.activeId).toBe('4');
});

it('those that were run lately come first, and a query finds by words and by kind', async () => {
	const { workspace } = await opened();
	const all = commandsOf(workspace);
	const ids = (query: string, recent: string[] = []) => findCommands(all, query, recent).map(({ id }) => id);
	expect(ids('')).toEqual(all.map(({ id }) => id));
	expect(ids('', ['theme-dark', 'restartEngine']).slice(0, 3)).toEqual([
		'theme-dark',
		'restartEngine',
		'newTab',
	]);
	expect(ids('rainb')).toEqual(['conversation-2']);
	expect(ids('models model b')[0]).toBe('model-b');
	expect(ids('theme', ['theme-light'])[0]).toBe('theme-light');
	expect(ids('no such thing')).toEqual([]);
});
