import type { ChatTab } from '../chat/chatTab.svelte';
import type { Preset, SamplingSettings } from '../ipc/wire';
import { presetOf, withPreset } from './presets';
import type { Settings } from './settings.svelte';

/** The presets, and which one was chosen in which tab since the window opened. */
export class TabPresets {
	#settings: Settings;
	#chosen = $state.raw<Readonly<Record<string, string>>>({});

	constructor(settings: Settings) {
		this.#settings = settings;
	}

	get all(): readonly Preset[] {
		return this.#settings.value.presets;
	}

	change(presets: Preset[]) {
		this.#settings.change({ presets });
	}

	/** The preset that a tab's settings come from. */
	of(tab: ChatTab): Preset | null {
		return tab.settings && presetOf(tab.settings, this.all, this.#chosen[tab.id] ?? null);
	}

	note(tabId: string, name: string) {
		this.#chosen = { ...this.#chosen, [tabId]: name };
	}

	/** Gives a preset the settings of a tab; makes one of that name if there is none. */
	save(tabId: string, name: string, settings: SamplingSettings) {
		this.change(withPreset(this.all, { name, settings }));
		this.note(tabId, name);
	}
}
