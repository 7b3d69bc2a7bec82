import { listed } from '../format';
import type { WordKey } from '../i18n/catalogue';
import { t } from '../i18n/language.svelte';
import type { RecommendedSampling, SamplingSettings } from '../ipc/wire';
import { shortDecimal } from './numberRules';

/** What the model's maker recommends, where it says something; everything else as it was. */
export function withRecommended(
	settings: SamplingSettings,
	recommended: RecommendedSampling,
): SamplingSettings {
	const { temperature, topP, topK, minP, repetitionPenalty } = recommended;
	return {
		...settings,
		temperature: temperature ?? settings.temperature,
		topP: topP ?? settings.topP,
		topK: topK ?? settings.topK,
		minP: minP ?? settings.minP,
		repetitionPenalty: repetitionPenalty ?? settings.repetitionPenalty,
	};
}

/** Whether nothing would change. */
export function isAsRecommended(settings: SamplingSettings, recommended: RecommendedSampling): boolean {
	const wanted = withRecommended(settings, recommended);
	return (['temperature', 'topP', 'topK', 'minP', 'repetitionPenalty'] as const).every(
		(field) => wanted[field] === settings[field],
	);
}

/** "temperature 0.6, top-p 0.95" */
export function recommendedWords(recommended: RecommendedSampling): string {
	const said: [WordKey, number | null][] = [
		['sampling:recommendedTemperature', recommended.temperature],
		['sampling:recommendedTopP', recommended.topP],
		['sampling:recommendedTopK', recommended.topK],
		['sampling:recommendedMinP', recommended.minP],
		['sampling:recommendedRepetitionPenalty', recommended.repetitionPenalty],
	];
	return listed(
		said.flatMap(([key, value]) => (value === null ? [] : t(key, { value: shortDecimal(value) }))),
	);
}
