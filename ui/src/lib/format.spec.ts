// @vitest-environment node
import { expect, it } from 'vitest';
import { ago, bytes, count, ms, plural, tokS } from './format';

it('says when a figure is not known', () => {
	expect([tokS(null), ms(null)]).toEqual(['–', '–']);
});

it('keeps figures short', () => {
	expect([tokS(33.333), tokS(133.3)]).toEqual(['33.3', '133']);
	expect([ms(1.25), ms(26.4), ms(1234), ms(12_345)]).toEqual(['1.3 ms', '26 ms', '1.2 s', '12 s']);
	expect([bytes(512), bytes(94_371_840), bytes(538_000_000)]).toEqual(['512 B', '90.0 MiB', '513 MiB']);
	expect([count(999), count(1_234_567)]).toEqual(['999', '1\u202f234\u202f567']);
	expect([plural(1, 'token'), plural(0, 'token')]).toEqual(['1 token', '0 tokens']);
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
