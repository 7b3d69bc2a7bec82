// @vitest-environment node
import { expect, it } from 'vitest';
import { matchScore } from './match';

it('what matches better is worth more', () => {
	const texts = ['Theme: Dark', 'Open theme park', 'Mathemes', 'The other mode'];
	const scores = texts.map((text) => matchScore('theme', text) ?? 0);
	expect(scores.every((score) => score > 0)).toBe(true);
	expect(scores, 'start, start of a word, inside one, scattered').toEqual([...scores].sort((a, b) => b - a));
	expect(new Set(scores.map((score) => Math.round(score / 10))).size).toBe(texts.length);
});

it.each([
	['dark theme', 'Theme: Dark', true],
	['THEME', 'theme: dark', true],
	['größer', 'Größere Schrift', true],
	['ovly', 'Hide the performance overlay', true],
	['theme purple', 'Theme: Dark', false],
	['kat', 'Theme: Dark tabs', false],
])('"%s" finds "%s": %s', (query, text, isFound) => {
	expect(matchScore(query, text) !== null).toBe(isFound);
});

it('among equals the shorter text is worth more', () => {
	expect(matchScore('new', 'New tab')).toBeGreaterThan(matchScore('new', 'New tab beside this one') ?? 0);
});
