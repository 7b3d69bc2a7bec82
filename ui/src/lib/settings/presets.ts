import type { Preset, SamplingSettings } from '../ipc/wire';

const longestName = 60;

/** Why a name cannot be given to a preset. */
export type NameProblem = 'empty' | 'long' | 'taken';

/** `but`: the preset that is renamed, whose own name is free. */
export function nameProblem(
	name: string,
	presets: readonly Preset[],
	but: string | null = null,
): NameProblem | null {
	const wanted = name.trim();
	if (wanted === '') return 'empty';
	if ([...wanted].length > longestName) return 'long';
	const isTaken = presets.some((preset) => preset.name === wanted && preset.name !== but);
	return isTaken ? 'taken' : null;
}

/** Whether two settings say the same. Rust keeps numbers as 32-bit floats: 0.7 comes back as 0.699999988079071. */
export function isSame(a: SamplingSettings, b: SamplingSettings): boolean {
	return plain(a) === plain(b);
}

function plain(settings: SamplingSettings): string {
	const sorted = Object.entries(settings).sort(([a], [b]) => (a < b ? -1 : 1));
	return JSON.stringify(sorted, (_, value: unknown) =>
		typeof value === 'number' ? Number(value.toPrecision(6)) : value,
	);
}

/** Adds a preset at the end, or gives the one of that name other settings. */
export function withPreset(presets: readonly Preset[], { name, settings }: Preset): Preset[] {
	const wanted = { name: name.trim(), settings };
	const isThere = presets.some((preset) => preset.name === wanted.name);
	if (!isThere) return [...presets, wanted];
	return presets.map((preset) => (preset.name === wanted.name ? wanted : preset));
}

export function withoutPreset(presets: readonly Preset[], name: string): Preset[] {
	return presets.filter((preset) => preset.name !== name);
}

export function renamed(presets: readonly Preset[], from: string, to: string): Preset[] {
	return presets.map((preset) => (preset.name === from ? { ...preset, name: to.trim() } : preset));
}

/** Puts a preset `by` places further down; at an end it stays. */
export function moved(presets: readonly Preset[], name: string, by: 1 | -1): Preset[] {
	const at = presets.findIndex((preset) => preset.name === name);
	const there = presets[at + by];
	const here = presets[at];
	if (!here || !there) return [...presets];
	return presets.map((preset) => (preset === here ? there : preset === there ? here : preset));
}

/** The preset that settings come from: the one chosen last, else one that says the same. */
export function presetOf(
	settings: SamplingSettings,
	presets: readonly Preset[],
	chosen: string | null,
): Preset | null {
	const named = presets.find((preset) => preset.name === chosen);
	return named ?? presets.find((preset) => isSame(preset.settings, settings)) ?? null;
}
