import { t, wordsFor } from '../i18n/language.svelte';
import type { GateMode, OverlapMode, OverlapOff, StepStats } from '../ipc/wire';

interface ModeWords {
	name: string;
	/** What it does, in a sentence. */
	explanation: string;
}

export const gateModeWords: Record<GateMode, ModeWords> = {
	strict: wordsFor({ name: 'engine:strict', explanation: 'engine:strictExplanation' }),
	split: wordsFor({ name: 'engine:split', explanation: 'engine:splitExplanation' }),
	folded: wordsFor({ name: 'engine:folded', explanation: 'engine:foldedExplanation' }),
};

export const overlapWords: Record<OverlapMode, ModeWords> = {
	adaptive: wordsFor({ name: 'engine:adaptive', explanation: 'engine:adaptiveExplanation' }),
	on: wordsFor({ name: 'engine:on', explanation: 'engine:onExplanation' }),
	off: wordsFor({ name: 'engine:off', explanation: 'engine:offExplanation' }),
};

export const overlapOffWords = wordsFor<OverlapOff>({
	switchedOff: 'engine:overlapSwitchedOff',
	batchGrowing: 'engine:overlapBatchGrowing',
	perRowRows: 'engine:overlapPerRowRows',
	kvCopyCostly: 'engine:overlapKvCopyCostly',
	measuring: 'engine:overlapMeasuring',
	memoryPressure: 'engine:overlapMemoryPressure',
	lastTokens: 'engine:overlapLastTokens',
});

/** Whether the latest step overlapped, in words; `null` before the first. */
export function overlapNow(steps: StepStats): string | null {
	if (steps.decodeSteps === 0) return null;
	if (steps.overlapOff === null) return t('engine:overlapNowOn');
	return t('engine:overlapNowOff', { reason: overlapOffWords[steps.overlapOff] });
}
