import { count, plural } from '../format';
import type { SamplingSettings } from '../ipc/wire';
import { decimal } from './numberRules';

const structureWords = {
	jsonSchema: 'JSON Schema',
	regex: 'regular expression',
	lark: 'Lark grammar',
} as const;

/** The settings that few answers use, in words; those that are off are left out. */
export function settingsWords(settings: SamplingSettings): [string, string][] {
	const { xtc, structuredOutput, thinkingBudget, logitBias } = settings;
	const penalties = [settings.repetitionPenalty, settings.frequencyPenalty, settings.presencePenalty];
	const words: [string, string | null][] = [
		['Structured output', structuredOutput && structureWords[structuredOutput.kind]],
		['Thinking budget', thinkingBudget === null ? null : plural(thinkingBudget, 'token')],
		[
			'Repetition, frequency, presence penalty',
			penalties.join() === '1,0,0' ? null : penalties.map(decimal).join(', '),
		],
		['Logit bias', logitBias.length === 0 ? null : `on ${plural(logitBias.length, 'token')}`],
		['XTC threshold, probability', xtc && `${decimal(xtc.threshold)}, ${decimal(xtc.probability)}`],
		['Logprobs', settings.logprobs === null ? null : `${count(settings.logprobs)} alternatives`],
	];
	return words.flatMap(([name, value]) => (value === null ? [] : [[name, value]]));
}
