import type { BatchOutlook } from '../engine/paths';
import type { SamplingSettings } from '../ipc/wire';
import { isSame } from './presets';

/** What is changed about a tab so that it samples with the others; each names settings of the form. */
export type Change =
	'structuredOutput' | 'thinkingBudget' | 'logprobs' | 'logitBias' | 'penalties' | 'sampling';

export interface Match {
	settings: SamplingSettings;
	/** Empty when the tab is in step already. */
	changes: Change[];
}

const noPenalties = { repetitionPenalty: 1, frequencyPenalty: 0, presencePenalty: 0 };

/** Settings with which the tab joins the fused step of the others, as near to its own as can be. */
export function matchBatch(settings: SamplingSettings, { mode, others, hasThinking }: BatchOutlook): Match {
	if (mode === 'folded' || settings.remote !== null) return { settings, changes: [] };
	const steps: (readonly [Change, Partial<SamplingSettings>])[] = [
		['structuredOutput', { structuredOutput: null }],
		...(hasThinking ? ([['thinkingBudget', { thinkingBudget: null }]] as const) : []),
		['logprobs', { logprobs: null }],
		['logitBias', { logitBias: [] }],
		['penalties', noPenalties],
	];
	const [first] = others;
	if (mode === 'strict' && first) {
		const { temperature, topP, topK, minP, xtc } = first;
		steps.push(['sampling', { temperature, topP, topK, minP, xtc }]);
	}
	const changes: Change[] = [];
	let matched = settings;
	for (const [change, values] of steps) {
		const next = { ...matched, ...values };
		if (!isSame(next, matched)) changes.push(change);
		matched = next;
	}
	return { settings: changes.length === 0 ? settings : matched, changes };
}
