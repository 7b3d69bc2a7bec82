import { listed } from '../format';
import { t, wordsFor } from '../i18n/language.svelte';
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

export const reasonLabel = wordsFor<PathReason>({
	structuredMask: 'engine:reasonStructuredMask',
	thinkingOverride: 'engine:reasonThinkingOverride',
	logprobs: 'engine:reasonLogprobs',
	tokenBias: 'engine:reasonTokenBias',
	biasTrace: 'engine:reasonBiasTrace',
	historyPenalty: 'engine:reasonHistoryPenalty',
	unsupportedSampler: 'engine:reasonUnsupportedSampler',
	customProcessor: 'engine:reasonCustomProcessor',
	quarantined: 'engine:reasonQuarantined',
	mixedSettings: 'engine:reasonMixedSettings',
	singleRow: 'engine:reasonSingleRow',
	widthOverflow: 'engine:reasonWidthOverflow',
	forcedReference: 'engine:reasonForcedReference',
	repeatedEvalFailure: 'engine:reasonRepeatedEvalFailure',
});

const reasonClause = wordsFor<PathReason>({
	structuredMask: 'engine:clauseStructuredMask',
	thinkingOverride: 'engine:clauseThinkingOverride',
	logprobs: 'engine:clauseLogprobs',
	tokenBias: 'engine:clauseTokenBias',
	biasTrace: 'engine:clauseBiasTrace',
	historyPenalty: 'engine:clauseHistoryPenalty',
	unsupportedSampler: 'engine:clauseUnsupportedSampler',
	customProcessor: 'engine:clauseCustomProcessor',
	quarantined: 'engine:clauseQuarantined',
	mixedSettings: 'engine:clauseMixedSettings',
	singleRow: 'engine:clauseSingleRow',
	widthOverflow: 'engine:clauseWidthOverflow',
	forcedReference: 'engine:clauseForcedReference',
	repeatedEvalFailure: 'engine:clauseRepeatedEvalFailure',
});

/** What rides inside the fused graph, by the reason that asked for it. The others say nothing about the graph. */
const featureLabel: Partial<Record<PathReason, string>> = wordsFor({
	structuredMask: 'engine:featureMask',
	thinkingOverride: 'engine:featureForcedTokens',
	logprobs: 'engine:featureLogprobs',
	tokenBias: 'engine:featureBias',
	biasTrace: 'engine:featureBiasTrace',
	historyPenalty: 'engine:featurePenalties',
	widthOverflow: 'engine:featureFullWidth',
});

/** The mark of a row, from what the engine did on its latest steps. */
export function pathMark(gate: GatePath, titleOf: (conversationId: string) => string): PathMark {
	if (gate.path === 'fused') return fusedMark(gate);
	const reasons = listed(gate.reasons.map((reason) => reasonLabel[reason]));
	if (gate.causedByConversationId !== null) {
		const title = titleOf(gate.causedByConversationId);
		return {
			kind: 'slowed',
			label: t('engine:slowedBy', { title }),
			explanation: reasons
				? t('engine:slowedByWhyReasons', { title, reasons })
				: t('engine:slowedByWhy', { title }),
		};
	}
	const clauses = gate.reasons.map((reason) => reasonClause[reason]).join(t('engine:clauseSeparator'));
	return {
		kind: 'perRow',
		label: reasons ? t('engine:perRowReasons', { reasons }) : t('engine:perRow'),
		explanation: clauses ? t('engine:perRowWhyClauses', { clauses }) : t('engine:perRowWhy'),
	};
}

function fusedMark(gate: GatePath): PathMark {
	const features = listed(gate.reasons.flatMap((reason) => featureLabel[reason] ?? []));
	return {
		kind: 'fused',
		label: features ? t('engine:fusedWith', { features }) : t('engine:fused'),
		explanation: features ? t('engine:fusedWhyFeatures', { features }) : t('engine:fusedWhy'),
	};
}

/** Keys that the gate compares to call settings mixed. Seeds are per row and never break the batch. */
function samplingKey(settings: SamplingSettings): string {
	const isGreedy = settings.temperature < 1e-5 || settings.topK === 1;
	if (isGreedy) return 'greedy';
	const { temperature, topP, topK, minP, xtc } = settings;
	return [temperature, topP, topK, minP, xtc?.threshold, xtc?.probability].join('/');
}

const structureName = wordsFor({
	jsonSchema: 'engine:structureJsonSchema',
	regex: 'engine:structureRegex',
	lark: 'engine:structureLark',
});

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
	const own = listed(needs(settings, hasThinking));
	const ofOthers = others.find((other) => needs(other, hasThinking).length > 0);
	if (own && isStrict && others.length > 0) notes.push(t('engine:forecastOwnTakesOthers', { needs: own }));
	else if (own) notes.push(t('engine:forecastOwn', { needs: own }));
	else if (isStrict && ofOthers) {
		const [need = ''] = needs(ofOthers, hasThinking);
		notes.push(t('engine:forecastOther', { need }));
	}
	if (isStrict && others.some((other) => samplingKey(other) !== samplingKey(settings))) {
		notes.push(t('engine:forecastMixed'));
	}
	return notes;
}
