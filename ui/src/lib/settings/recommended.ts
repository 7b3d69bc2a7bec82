import type { RecommendedSampling, SamplingSettings } from '../ipc/wire';

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
	const said: [string, number | null][] = [
		['temperature', recommended.temperature],
		['top-p', recommended.topP],
		['top-k', recommended.topK],
		['min-p', recommended.minP],
		['repetition penalty', recommended.repetitionPenalty],
	];
	return said
		.filter((entry): entry is [string, number] => entry[1] !== null)
		.map(([name, value]) => `${name} ${value}`)
		.join(', ');
}
