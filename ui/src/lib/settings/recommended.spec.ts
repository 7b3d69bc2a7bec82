import { expect, it } from 'vitest';
import { settingsOf } from '../testing/samples';
import { isAsRecommended, recommendedWords, withRecommended } from './recommended';

const qwen = { temperature: 0.6, topP: 0.95, topK: 20, minP: null, repetitionPenalty: null };

it('takes what is said and leaves the rest', () => {
	const settings = settingsOf({ minP: 0.1, maxTokens: 77 });
	const changed = withRecommended(settings, qwen);
	expect(changed).toEqual({ ...settings, temperature: 0.6, topP: 0.95, topK: 20 });
	expect(isAsRecommended(settings, qwen)).toBe(false);
	expect(isAsRecommended(changed, qwen)).toBe(true);
});

it('says only what is said', () => {
	expect(recommendedWords(qwen)).toBe('temperature 0.6, top-p 0.95, top-k 20');
});
