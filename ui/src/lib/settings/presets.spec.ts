import { expect, it } from 'vitest';
import { settingsOf } from '../testing/samples';
import { isSame, moved, nameProblem, presetOf, renamed, withoutPreset, withPreset } from './presets';

const calm = { name: 'Calm', settings: settingsOf({ temperature: 0.2 }) };
const wild = { name: 'Wild', settings: settingsOf({ temperature: 1.4 }) };
const both = [calm, wild];
const names = (presets: readonly { name: string }[]) => presets.map(({ name }) => name);

it.each([
	['', 'empty'],
	['  ', 'empty'],
	['Calm ', 'taken'],
	['x'.repeat(61), 'long'],
	['😀'.repeat(60), null],
	['Calmer', null],
])('the name %j: %s', (name, problem) => {
	expect(nameProblem(name, both)).toBe(problem);
});

it('lets a preset keep its own name', () => {
	expect(nameProblem('Calm', both, 'Calm')).toBeNull();
	expect(nameProblem('Wild', both, 'Calm')).toBe('taken');
});

it('takes settings that went through Rust for the same, and nothing else', () => {
	expect(isSame(settingsOf({ temperature: 0.7 }), settingsOf({ temperature: Math.fround(0.7) }))).toBe(true);
	expect(isSame(settingsOf(), settingsOf({ seed: '7' }))).toBe(false);
	expect(isSame(settingsOf({ xtc: null }), settingsOf({ xtc: { threshold: 0.1, probability: 0.5 } }))).toBe(
		false,
	);
});

it('adds, replaces, renames, moves and removes', () => {
	expect(names(withPreset(both, { name: ' New ', settings: settingsOf() }))).toEqual(['Calm', 'Wild', 'New']);
	expect(withPreset(both, { ...calm, settings: wild.settings })[0]?.settings).toBe(wild.settings);
	expect(names(renamed(both, 'Wild', 'Free'))).toEqual(['Calm', 'Free']);
	expect(names(moved(both, 'Wild', -1))).toEqual(['Wild', 'Calm']);
	expect(names(moved(both, 'Wild', 1))).toEqual(['Calm', 'Wild']);
	expect(names(withoutPreset(both, 'Calm'))).toEqual(['Wild']);
});

it('knows the preset of a tab by choice, else by what the settings say', () => {
	expect(presetOf(settingsOf(), both, 'Calm')).toBe(calm);
	expect(presetOf(settingsOf({ temperature: 1.4 }), both, null)).toBe(wild);
	expect(presetOf(settingsOf(), both, 'Gone')).toBeNull();
});
