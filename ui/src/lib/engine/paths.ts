import type { GateMode, GatePath, PathReason, SamplingSettings } from '../ipc/wire';

/** How a tab's row is sampled, as drawn: solid, hatched or hollow. */
export type MarkKind = 'fused' | 'perRow' | 'slowed';

export interface PathMark {
	kind: MarkKind;
	/** Two or three words. */
	label: string;
	/** A sentence, with the reason and the tab that caused it. */
	explanation: string;
}

export const reasonLabel: Record<PathReason, string> = {
	structuredMask: 'structured output',
	thinkingOverride: 'thinking budget',
	logprobs: 'logprobs',
	tokenBias: 'logit bias',
	biasTrace: 'bias trace',
	historyPenalty: 'penalties',
	unsupportedSampler: 'special sampler',
	customProcessor: 'host processor',
	quarantined: 'error on the last step',
	mixedSettings: 'mixed settings',
	singleRow: 'one row',
	widthOverflow: 'full width',
	forcedReference: 'reference run',
	repeatedEvalFailure: 'recovering from a fault',
};

const reasonClause: Record<PathReason, string> = {
	structuredMask: 'its output must match a structure',
	thinkingOverride: 'its thinking has a budget',
	logprobs: 'logprobs are recorded',
	tokenBias: 'single tokens have a bias',
	biasTrace: 'the effect of the bias is recorded',
	historyPenalty: 'tokens that occurred are penalised',
	unsupportedSampler: 'its sampler has no place in the shared step',
	customProcessor: 'the host edits its logits',
	quarantined: 'its latest step failed',
	mixedSettings: 'the tabs’ sampling settings differ',
	singleRow: 'it is alone in the batch',
	widthOverflow: 'the shortlist of likely tokens was too short',
	forcedReference: 'the reference path was asked for',
	repeatedEvalFailure: 'the shared step failed a moment ago',
};

/** What rides inside the fused graph, by the reason that asked for it. The others say nothing about the graph. */
const featureLabel: Partial<Record<PathReason, string>> = {
	structuredMask: 'mask',
	thinkingOverride: 'forced tokens',
	logprobs: 'logprobs',
	tokenBias: 'bias',
	biasTrace: 'bias trace',
	historyPenalty: 'penalties',
	widthOverflow: 'full width',
};

/** The mark of a row, from what the engine did on its latest steps. */
export function pathMark(gate: GatePath, titleOf: (conversationId: string) => string): PathMark {
	if (gate.path === 'fused') return fusedMark(gate);
	const labels = gate.reasons.map((reason) => reasonLabel[reason]).join(', ');
	if (gate.causedByConversationId !== null) {
		const cause = titleOf(gate.causedByConversationId);
		return {
			kind: 'slowed',
			label: `slowed by “${cause}”`,
			explanation: `Sampled per row because of the tab “${cause}”${labels ? ` (${labels})` : ''}.`,
		};
	}
	const clauses = gate.reasons.map((reason) => reasonClause[reason]).join(' and ');
	return {
		kind: 'perRow',
		label: labels ? `per row: ${labels}` : 'per row',
		explanation: `Sampled on its own${clauses ? ` because ${clauses}` : ''}.`,
	};
}

function fusedMark(gate: GatePath): PathMark {
	const features = gate.reasons.flatMap((reason) => featureLabel[reason] ?? []);
	const inside = features.length > 0 ? `, with its ${features.join(', ')} inside` : '';
	return {
		kind: 'fused',
		label: features.length > 0 ? `fused with ${features.join(', ')}` : 'fused',
		explanation: `Sampled in the one step that all fused tabs share${inside}.`,
	};
}

/** Keys that the gate compares to call settings mixed. Seeds are per row and never break the batch. */
function samplingKey(settings: SamplingSettings): string {
	const isGreedy = settings.temperature < 1e-5 || settings.topK === 1;
	if (isGreedy) return 'greedy';
	const { temperature, topP, topK, minP, xtc } = settings;
	return [temperature, topP, topK, minP, xtc?.threshold, xtc?.probability].join('/');
}

const structureName = { jsonSchema: 'JSON schema', regex: 'regex', lark: 'grammar' } as const;

/** What a tab's settings need beyond plain sampling, in words. */
function needs(settings: SamplingSettings, hasThinking: boolean): string[] {
	const { structuredOutput, thinkingBudget, logprobs, logitBias, wantsBiasTrace } = settings;
	const { repetitionPenalty, frequencyPenalty, presencePenalty } = settings;
	const hasPenalties = repetitionPenalty !== 1 || frequencyPenalty !== 0 || presencePenalty !== 0;
	const all: [boolean, string][] = [
		[structuredOutput !== null, structuredOutput ? structureName[structuredOutput.kind] : ''],
		[thinkingBudget !== null && hasThinking, reasonLabel.thinkingOverride],
		[logprobs !== null, reasonLabel.logprobs],
		[logitBias.length > 0, reasonLabel.tokenBias],
		[logitBias.length > 0 && wantsBiasTrace, reasonLabel.biasTrace],
		[hasPenalties, reasonLabel.historyPenalty],
	];
	return all.filter(([isNeeded]) => isNeeded).map(([, name]) => name);
}

/** What a forecast depends on besides the tab's own settings. */
export interface BatchOutlook {
	mode: GateMode;
	/** Settings of the tabs that are answering now. */
	others: readonly SamplingSettings[];
	/** Whether the model thinks before it answers. */
	hasThinking: boolean;
}

/** Says before sending what a tab's settings will do to the batch; empty when it will be fused. */
export function forecastPath(
	settings: SamplingSettings,
	{ mode, others, hasThinking }: BatchOutlook,
): string[] {
	if (mode === 'folded') return [];
	const notes: string[] = [];
	const isStrict = mode === 'strict';
	const takesOthers = isStrict && others.length > 0 ? ' and take the other tabs with it (Strict)' : '';
	const own = needs(settings, hasThinking);
	const ofOthers = others.find((other) => needs(other, hasThinking).length > 0);
	if (own.length > 0) notes.push(`This tab will sample per row: ${own.join(', ')}${takesOthers}.`);
	else if (isStrict && ofOthers) {
		const [need] = needs(ofOthers, hasThinking);
		notes.push(`This tab will sample per row: another tab asks for ${need} (Strict).`);
	}
	if (isStrict && others.some((other) => samplingKey(other) !== samplingKey(settings))) {
		notes.push('The batch will sample per row: this tab’s settings differ from the other tabs (Strict).');
	}
	return notes;
}
