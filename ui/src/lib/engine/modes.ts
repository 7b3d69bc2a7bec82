import type { GateMode, OverlapMode, OverlapOff, StepStats } from '../ipc/wire';

interface ModeWords {
	name: string;
	/** What it does, in a sentence. */
	explanation: string;
}

export const gateModeWords: Record<GateMode, ModeWords> = {
	strict: {
		name: 'Strict',
		explanation: 'One tab in need, or settings that differ, sends every tab down the per-row path.',
	},
	split: {
		name: 'Split',
		explanation: 'Only tabs that need it sample per row; the others stay fused, whatever their settings.',
	},
	folded: {
		name: 'Folded',
		explanation:
			'Structured output, bias, penalties and logprobs ride inside the fused step; hardly any tab leaves it.',
	},
};

export const overlapWords: Record<OverlapMode, ModeWords> = {
	adaptive: {
		name: 'Adaptive',
		explanation: 'Starts the next forward pass before the tokens are read where that measures faster.',
	},
	on: {
		name: 'On',
		explanation: 'Starts the next forward pass before the tokens are read whenever the batch allows it.',
	},
	off: { name: 'Off', explanation: 'Reads the tokens of a step before it starts the next.' },
};

export const overlapOffWords: Record<OverlapOff, string> = {
	switchedOff: 'switched off',
	batchGrowing: 'a tab is about to join',
	perRowRows: 'a tab samples per row',
	kvCopyCostly: 'steps without it measured faster',
	measuring: 'being compared',
	memoryPressure: 'memory is short',
	lastTokens: 'the last tokens',
};

/** Whether the latest step overlapped, in words; `null` before the first. */
export function overlapNow(steps: StepStats): string | null {
	if (steps.decodeSteps === 0) return null;
	return steps.overlapOff === null ? 'on' : `off: ${overlapOffWords[steps.overlapOff]}`;
}
