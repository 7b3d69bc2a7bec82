import { t } from '../i18n/language.svelte';
import type { ChatTab } from '../chat/chatTab.svelte';
import type { Preset } from '../ipc/wire';
import type { Workspace } from '../workspace.svelte';
import { matchBatch } from './matchBatch';

/** Opens a tab with the settings of a preset. */
export async function openWithPreset(workspace: Workspace, preset: Preset): Promise<void> {
	await workspace.newTabWith(preset.settings);
	const { activeId } = workspace.tabs;
	if (activeId !== null) workspace.presets.note(activeId, preset.name);
}

/** Gives a tab the settings of a preset. */
export async function takePreset(workspace: Workspace, tab: ChatTab, preset: Preset): Promise<void> {
	workspace.presets.note(tab.id, preset.name);
	await tab.writeSettings(preset.settings);
}

/** Brings a tab back into the fused step; the notice undoes it. */
export async function joinBatch(workspace: Workspace, tab: ChatTab): Promise<void> {
	const before = tab.settings;
	if (!before) return;
	const { settings, changes } = matchBatch(before, workspace.outlookOf(tab));
	if (changes.length === 0) return;
	await tab.writeSettings(settings);
	workspace.notices.say(t('presets:matched'), {
		action: { label: t('presets:undo'), run: () => void tab.writeSettings(before) },
	});
}
