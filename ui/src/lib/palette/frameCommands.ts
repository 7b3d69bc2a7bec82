import { t } from '../i18n/language.svelte';
import { openWithPreset, takePreset } from '../settings/presetActions';
import { copyMarkdown, exportConversation, exportLibrary, importFiles } from '../transfer/transferActions';
import { settingsSections, type Workspace } from '../workspace.svelte';
import { ofShortcut, type Command } from './commands';

/** What can be done with the place and the title of the shown tab. */
export function tabPlaceCommands(workspace: Workspace): Command[] {
	const { tabs } = workspace;
	const at = tabs.open.findIndex((tab) => tab.id === tabs.activeId);
	const isLast = at === tabs.open.length - 1;
	return [
		ofShortcut(workspace, 'renameTab', t('commands:groupTabs')),
		ofShortcut(workspace, 'moveTabLeft', t('commands:groupTabs'), {
			blockedBecause: at <= 0 && t('tabs:isFirst'),
		}),
		ofShortcut(workspace, 'moveTabRight', t('commands:groupTabs'), {
			blockedBecause: isLast && t('tabs:isLast'),
		}),
		{
			id: 'closeOtherTabs',
			title: t('tabs:closeOthers'),
			group: t('commands:groupTabs'),
			keys: null,
			blockedBecause: tabs.open.length < 2 ? t('commands:noOtherTab') : null,
			run: () => void (tabs.activeId && workspace.closeOtherTabs(tabs.activeId)),
		},
		{
			id: 'duplicateTab',
			title: t('tabs:duplicate'),
			group: t('commands:groupTabs'),
			keys: null,
			blockedBecause: null,
			run: () => void (tabs.active?.settings && workspace.newTabWith(tabs.active.settings)),
		},
	];
}

/** Conversations that become files, and files that become conversations. */
export function fileCommands(workspace: Workspace): Command[] {
	const id = workspace.tabs.activeId;
	const group = t('transfer:title');
	const ofFiles = (name: string, title: string, run: () => void): Command => ({
		id: name,
		title,
		group,
		keys: null,
		blockedBecause: null,
		run,
	});
	return [
		ofFiles('copyMarkdown', t('transfer:copyMarkdown'), () => void (id && copyMarkdown(workspace, id))),
		ofFiles(
			'exportMarkdown',
			t('transfer:exportMarkdown'),
			() => void (id && exportConversation(workspace, id, 'markdown')),
		),
		ofFiles(
			'exportJson',
			t('transfer:exportJson'),
			() => void (id && exportConversation(workspace, id, 'json')),
		),
		ofFiles(
			'exportAllJson',
			t('transfer:everythingAs', { format: 'JSON' }),
			() => void exportLibrary(workspace, 'json'),
		),
		ofFiles(
			'exportAllMarkdown',
			t('transfer:everythingAs', { format: 'Markdown' }),
			() => void exportLibrary(workspace, 'markdown'),
		),
		ofFiles('importFiles', t('transfer:importFiles'), () => void importFiles(workspace)),
	];
}

/** The parts of the settings. */
export function settingsCommands(workspace: Workspace): Command[] {
	return settingsSections.map((section) => ({
		id: `settings-${section}`,
		title: t('sections:open', { name: t(`sections:${section}`) }),
		group: t('commands:groupView'),
		keys: null,
		blockedBecause:
			workspace.screen === 'settings' && workspace.settingsSection === section
				? t('commands:shownAlready')
				: null,
		run: () => workspace.showSettings(section),
	}));
}

/** The presets, for the shown tab and for a new one. */
export function presetCommands(workspace: Workspace): Command[] {
	const { active } = workspace.tabs;
	return workspace.presets.all.flatMap((preset) => [
		{
			id: `preset-${preset.name}`,
			title: t('presets:useNamed', { name: preset.name }),
			group: t('presets:list'),
			keys: null,
			blockedBecause: null,
			run: () => void (active && takePreset(workspace, active, preset)),
		},
		{
			id: `presetTab-${preset.name}`,
			title: t('presets:openNamed', { name: preset.name }),
			group: t('presets:list'),
			keys: null,
			blockedBecause: null,
			run: () => void openWithPreset(workspace, preset),
		},
	]);
}
