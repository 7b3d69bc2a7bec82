// @vitest-environment node
import { expect, it } from 'vitest';
import type { TokenDetail } from '../ipc/wire';
import { percent, quotedText, surpriseOf, visibleText } from './tokenWords';

const token = (changes: Partial<TokenDetail>): TokenDetail => ({
	token: 1,
	text: ' a',
	logprob: null,
	alternatives: [],
	isForced: false,
	bias: null,
	...changes,
});

it.each([
	[-0.01, 'sure'],
	[Math.log(0.6), 'likely'],
	[Math.log(0.3), 'open'],
	[Math.log(0.1), 'unlikely'],
	[-9, 'rare'],
] as const)('calls a logprob of %d %s', (logprob, surprise) => {
	expect(surpriseOf(token({ logprob }))).toBe(surprise);
});

it('tells forced tokens, impossible ones and ones without logprobs apart', () => {
	expect(surpriseOf(token({ isForced: true }))).toBe('forced');
	expect(surpriseOf(token({}))).toBe('unknown');
	const alternatives = [{ token: 2, text: 'b', logprob: -0.1 }];
	expect(surpriseOf(token({ alternatives }))).toBe('rare');
});

it('shows white space, and never rounds a chance to none or to certainty', () => {
	expect(visibleText('a\n\tb')).toBe('a⏎⇥b');
	expect(quotedText('\n')).toBe('“⏎”');
	expect([percent(null), percent(-20), percent(-0.000001), percent(0), percent(Math.log(0.5))]).toEqual([
		'0 %',
		'< 0.01 %',
		'> 99.9 %',
		'100.0 %',
		'50.0 %',
	]);
});
