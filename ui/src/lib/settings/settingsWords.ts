import { listed, tokens } from '../format';
import { t, wordsFor } from '../i18n/language.svelte';
import type { SamplingSettings } from '../ipc/wire';
import { shortDecimal } from './numberRules';

const structureWords = wordsFor({
	jsonSchema: 'sampling:structureJsonSchema',
	regex: 'sampling:receiptRegex',
	lark: 'sampling:structureLark',
});

/** The settings that few answers use, in words; those that are off are left out. */
export function settingsWords(settings: SamplingSettings): [string, string][] {
	const { xtc, structuredOutput, thinkingBudget, logitBias } = settings;
	const penalties = [settings.repetitionPenalty, settings.frequencyPenalty, settings.presencePenalty];
	const words: [string, string | null][] = [
		[t('sampling:receiptStructure'), structuredOutput && structureWords[structuredOutput.kind]],
		[t('sampling:thinkingBudget'), thinkingBudget === null ? null : tokens(thinkingBudget)],
		[
			t('sampling:receiptPenalties'),
			penalties.join() === '1,0,0' ? null : listed(penalties.map(shortDecimal)),
		],
		[
			t('sampling:bias'),
			logitBias.length === 0 ? null : t('sampling:receiptBias', { count: logitBias.length }),
		],
		[t('sampling:receiptXtc'), xtc && listed([xtc.threshold, xtc.probability].map(shortDecimal))],
		[
			t('sampling:logprobs'),
			settings.logprobs === null ? null : t('sampling:receiptLogprobs', { count: settings.logprobs }),
		],
	];
	return words.flatMap(([name, value]) => (value === null ? [] : [[name, value]]));
}
