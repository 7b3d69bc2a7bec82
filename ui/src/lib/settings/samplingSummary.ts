import { t } from '../i18n/language.svelte';
import type { SamplingSettings } from '../ipc/wire';
import { shortDecimal } from './numberRules';

/** Settings in one short line: what stands out about them. */
export function samplingSummary(settings: SamplingSettings): string {
	const { temperature, topK, topP, structuredOutput, systemPrompt, remote } = settings;
	const isGreedy = temperature < 1e-5 || topK === 1;
	const parts = [
		isGreedy
			? t('chat:greedy')
			: t('chat:samplingSummary', { temperature: shortDecimal(temperature), topP: shortDecimal(topP) }),
		structuredOutput && { jsonSchema: 'JSON', regex: 'regex', lark: 'Lark' }[structuredOutput.kind],
		remote && remote.model,
		systemPrompt.trim() === '' ? null : t('presets:hasSystemPrompt'),
	];
	return parts.filter((part) => part !== null).join(' · ');
}
