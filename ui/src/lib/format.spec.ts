import { afterEach, expect, it } from 'vitest';
import { ago, bytes, count, ms, percent, roundCount, tokens, tokS } from './format';
import { setLanguage } from './i18n/language.svelte';

afterEach(() => setLanguage('en'));

it('says when a figure is not known', () => {
	expect([tokS(null), ms(null)]).toEqual(['–', '–']);
});

it('keeps figures short', () => {
	expect([tokS(33.333), tokS(133.3)]).toEqual(['33.3', '133']);
	expect([ms(1.25), ms(26.4), ms(1234), ms(12_345)]).toEqual(['1.3 ms', '26 ms', '1.2 s', '12 s']);
	expect([bytes(512), bytes(94_371_840), bytes(538_000_000)]).toEqual(['512 B', '90.0 MiB', '513 MiB']);
	expect([count(999), count(1_234_567)]).toEqual(['999', '1\u202f234\u202f567']);
	expect([tokens(1), tokens(0), tokens(4096)]).toEqual(['1 token', '0 tokens', '4\u202f096 tokens']);
});

it('says how long ago', () => {
	const now = new Date(2026, 10, 29, 12).getTime();
	const minute = 60_000;
	expect(ago(now - 20_000, now)).toBe('now');
	expect(ago(now - 5 * minute, now)).toBe('5 min');
	expect(ago(now - 3 * 60 * minute, now)).toBe('3 h');
	expect(ago(new Date(2026, 2, 4).getTime(), now)).toBe('4 Mar');
	expect(ago(new Date(2024, 2, 4).getTime(), now)).toBe('4 Mar 2024');
});

it.each([
	[950, '950'],
	[12_340, '12.3k'],
	[689_000, '689k'],
	[4_512_000, '4.5M'],
])('%d is roughly %s', (value, words) => {
	expect(roundCount(value)).toBe(words);
});

it('writes figures as the language does', () => {
	const now = new Date(2026, 10, 29, 12).getTime();
	const then = new Date(2024, 2, 4).getTime();
	const figures = () => [
		tokS(33.333),
		ms(1234),
		bytes(94_371_840),
		percent(42),
		roundCount(12_340),
		ago(then, now),
		tokens(1),
	];
	setLanguage('de');
	expect(figures()).toEqual([
		'33,3',
		'1,2 s',
		'90,0 MiB',
		'42 %',
		'12,3\u00a0Tsd.',
		'4. März 2024',
		'1 Token',
	]);
	setLanguage('zh-Hans');
	expect(figures()).toEqual(['33.3', '1.2 s', '90.0 MiB', '42%', '1.2万', '2024年3月4日', '1 个 token']);
});
