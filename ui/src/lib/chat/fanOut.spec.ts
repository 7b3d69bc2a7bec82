import { describe, expect, it } from 'vitest';
import { settingsOf } from '../testing/samples';
import { nextLine, readingsOf, readingWords, startingLines, typedVariants, variantWords } from './fanOut';

const base = settingsOf({ systemPrompt: 'Be brief.', seed: '7' });

describe('variants', () => {
	it('start with three seeds, the tab’s own first', () => {
		const { seeds } = startingLines(base);
		expect(seeds.length).toBe(3);
		expect(seeds[0]).toBe('7');
		expect(new Set(seeds).size).toBe(3);
	});

	it('differ in what was typed and in nothing else', () => {
		const variants = typedVariants('temperatures', ['0', '1.2'], base);
		expect(variants.map(({ settings }) => settings)).toEqual([
			{ ...base, temperature: 0 },
			{ ...base, temperature: 1.2 },
		]);
		expect(typedVariants('systemPrompts', [''], base)[0]?.settings.systemPrompt).toBe('');
	});

	it('name what is wrong beside the line that it is wrong in', () => {
		const errors = typedVariants('seeds', ['1', '-3'], base).map(({ error }) => error);
		expect(errors[0]).toBeNull();
		expect(errors[1]).toContain('-3');
		expect(typedVariants('temperatures', ['9'], base)[0]?.error).toContain('9');
	});

	it('get another line that makes sense', () => {
		expect(nextLine('temperatures', ['0', '0.7'])).toBe('1');
		expect(nextLine('temperatures', ['4.9'])).toBe('5');
		expect(nextLine('seeds', [])).toMatch(/^\d+$/);
	});
});

describe('what is shared', () => {
	it('is the prompt, as long as the system prompt is the same', () => {
		expect(readingsOf([base, { ...base, seed: '8' }])).toEqual({ prompts: 1, remote: 0 });
		expect(readingsOf([base, { ...base, systemPrompt: '' }])).toEqual({ prompts: 2, remote: 0 });
		const remote = { serverId: 's', model: 'm' };
		expect(readingsOf([base, { ...base, remote }])).toEqual({ prompts: 1, remote: 1 });
	});

	it('is said in words', () => {
		expect(readingWords([base, { ...base, temperature: 0 }])).toContain('once');
		expect(readingWords([base, { ...base, systemPrompt: 'x' }])).toContain('2');
	});
});

describe('the name of an answer beside others', () => {
	it('says what differs', () => {
		const other = { ...base, temperature: 1.2, seed: '9' };
		expect(variantWords(other, [base, other])).toBe('T 1.2');
		expect(variantWords(base, [base, { ...base, systemPrompt: '' }])).toBe('System prompt “Be brief.”');
	});

	it('is the seed if nothing else differs', () => {
		expect(variantWords(base, [base, { ...base, seed: '8' }])).toBe('seed 7');
		expect(variantWords(base, [base, base])).toBe('seed 7');
	});

	it('is nothing while no settings are known', () => {
		expect(variantWords(null, [null, base])).toBe('');
	});
});
