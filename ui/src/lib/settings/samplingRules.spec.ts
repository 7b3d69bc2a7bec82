// @vitest-environment node
import { describe, expect, it } from 'vitest';
import { settingsOf } from '../testing/samples';
import { checkForm, formOf, type FormField } from './samplingRules';

const form = formOf(settingsOf());

describe('checkForm', () => {
	it('gives back the settings that a form was made from', () => {
		const settings = settingsOf({
			seed: '18446744073709551615',
			logprobs: 5,
			stop: ['\n\n', 'a\\b', '\tEND'],
			systemPrompt: 'Be\nbrief.',
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
});
