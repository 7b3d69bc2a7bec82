// @vitest-environment node
import { describe, expect, it } from 'vitest';
import { settingsOf } from '../testing/samples';
import type { BiasRow } from './biasRules';
import { checkForm, formOf, type FormField, type SamplingForm } from './samplingRules';

const form = formOf(settingsOf());

describe('checkForm', () => {
	it('gives back the settings that a form was made from', () => {
		const settings = settingsOf({
			seed: '18446744073709551615',
			logprobs: 5,
			stop: ['\n\n', 'a\\b', '\tEND'],
			systemPrompt: 'Be\nbrief.',
			xtc: { threshold: 0.2, probability: 0.25 },
			repetitionPenalty: 1.1,
			frequencyPenalty: -0.5,
			presencePenalty: 2,
			logitBias: [
				{ target: { kind: 'text', text: ' the' }, value: -3.5 },
				{ target: { kind: 'tokenId', id: 42 }, value: 100 },
			],
			wantsBiasTrace: true,
			structuredOutput: { kind: 'jsonSchema', schema: '{ "type": "object" }' },
			thinkingBudget: 0,
		});
		expect(checkForm(formOf(settings))).toEqual({ settings, errors: null });
	});

	it('shows 32-bit floats as they were typed', () => {
		expect(formOf(settingsOf({ temperature: 0.699999988079071 })).temperature).toBe('0.7');
	});

	it.each<[FormField, string, string]>([
		['temperature', '5.1', 'Temperature must be a number, from 0 to 5; it is “5.1”.'],
		['temperature', 'hot', 'Temperature must be a number, from 0 to 5; it is “hot”.'],
		['temperature', '', 'Temperature must be a number, from 0 to 5; it is empty.'],
		['topP', '0', 'Top-p must be a number, above 0 and at most 1; it is “0”.'],
		['topP', '1.5', 'Top-p must be a number, above 0 and at most 1; it is “1.5”.'],
		['topK', '-1', 'Top-k must be a whole number, 0 or more; it is “-1”.'],
		['topK', '2.5', 'Top-k must be a whole number, 0 or more; it is “2.5”.'],
		['minP', '1', 'Min-p must be a number, at least 0 and below 1; it is “1”.'],
		['maxTokens', '0', 'Max tokens must be a whole number, 1 or more; it is “0”.'],
		['logprobs', '21', 'Logprobs must be a whole number, from 0 to 20; it is “21”.'],
		[
			'seed',
			'18446744073709551616',
			'Seed must be a whole number from 0 to 18446744073709551615, or empty; it is “18446744073709551616”.',
		],
		['seed', '-1', 'Seed must be a whole number from 0 to 18446744073709551615, or empty; it is “-1”.'],
		[
			'stop',
			Array.from({ length: 17 }, (_, i) => `s${i}`).join('\n'),
			'Stop sequences can be at most 16; there are 17.',
		],
		['thinkingBudget', '-1', 'Thinking budget must be a whole number, 0 or more; it is “-1”.'],
		['repetitionPenalty', '0', 'Repetition penalty must be a number, above 0 and at most 10; it is “0”.'],
		['presencePenalty', '2.1', 'Presence penalty must be a number, from -2 to 2; it is “2.1”.'],
		['xtcThreshold', '1.1', 'XTC threshold must be a number, above 0 and at most 1; it is “1.1”.'],
	])('names field, limit and value: %s = %j', (field, value, error) => {
		expect(checkForm({ ...form, [field]: value }).errors).toEqual({ [field]: error });
	});

	it.each<[FormField, string]>([
		['temperature', '0'],
		['temperature', '5'],
		['temperature', '0,8'],
		['topP', '1'],
		['minP', '0'],
		['logprobs', '0'],
		['logprobs', ''],
		['seed', ''],
		['maxTokens', '1'],
	])('takes %s = %j', (field, value) => {
		expect(checkForm({ ...form, [field]: value }).errors).toBeNull();
	});

	it.each<[string, Partial<SamplingForm>, string]>([
		['jsonSchema', { structureKind: 'jsonSchema', structureText: '{"type": ' }, 'The schema is not JSON yet'],
		['a list', { structureKind: 'jsonSchema', structureText: '[]' }, 'A schema is a JSON object'],
		['no text', { structureKind: 'jsonSchema', structureText: ' ' }, 'The schema is empty'],
		['no expression', { structureKind: 'regex', structureText: '' }, 'The expression is empty'],
		['no grammar', { structureKind: 'lark', structureText: '\n' }, 'The grammar is empty'],
	])('refuses structured output while it is %s', (_, changes, error) => {
		expect(checkForm({ ...form, ...changes }).errors?.structureText).toContain(error);
		const off = checkForm({ ...form, ...changes, structureKind: 'off' });
		expect(off.settings?.structuredOutput, 'what is switched off is not checked').toBeNull();
	});

	it.each<[BiasRow, string]>([
		[{ kind: 'text', target: 'Paris', value: '101' }, 'Bias of “Paris” must be a number, from -100 to 100'],
		[{ kind: 'tokenId', target: 'x', value: '1' }, 'Token id must be a whole number'],
		[{ kind: 'text', target: '', value: '1' }, 'A bias needs the text of its token'],
	])('names the bias that is wrong: %j', (row, error) => {
		expect(checkForm({ ...form, bias: [row] }).errors?.bias).toContain(error);
	});

	it('takes a token once, and leaves out rows that are not filled', () => {
		const row: BiasRow = { kind: 'text', target: ' a', value: '1' };
		const empty: BiasRow = { kind: 'tokenId', target: '', value: '' };
		expect(checkForm({ ...form, bias: [row, row] }).errors?.bias).toContain('“ a” has two');
		expect(checkForm({ ...form, bias: [empty, row] }).settings?.logitBias).toEqual([
			{ target: { kind: 'text', text: ' a' }, value: 1 },
		]);
	});
});
