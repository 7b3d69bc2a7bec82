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
	logprobs: 'logprobs',
	mixedSettings: 'mixed settings',
};

const reasonClause: Record<PathReason, string> = {
	logprobs: 'logprobs are recorded',
	mixedSettings: 'its sampling settings differ from the other tabs',
};

/** The mark of a row, from what the engine did on its latest step. */
export function pathMark(gate: GatePath, titleOf: (conversationId: string) => string): PathMark {
	if (gate.path === 'fused') {
		return {
			kind: 'fused',
			label: 'fused',
			explanation: 'Sampled in the one step that all fused tabs share.',
		};
	}
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

/** Keys that the gate compares to call settings mixed. Seeds are per row and never break the batch. */
function samplingKey(settings: SamplingSettings): string {
	const isGreedy = settings.temperature < 1e-5 || settings.topK === 1;
	if (isGreedy) return 'greedy';
	return [settings.temperature, settings.topP, settings.topK, settings.minP].join('/');
}

/**
 * Says before sending what a tab's settings will do to the batch; empty when it will be fused.
 *
 * `others`: settings of the tabs that are answering now.
 */
export function forecastPath(
	settings: SamplingSettings,
	mode: GateMode,
	others: readonly SamplingSettings[],
): string[] {
	const notes: string[] = [];
	const takesOthers =
		mode === 'strict' && others.length > 0 ? ' and take the other tabs with it (Strict)' : '';
	if (settings.logprobs !== null) notes.push(`This tab will sample per row: logprobs${takesOthers}.`);
	else if (mode === 'strict' && others.some((other) => other.logprobs !== null)) {
		notes.push('This tab will sample per row: another tab records logprobs (Strict).');
	}
	if (mode === 'strict' && others.some((other) => samplingKey(other) !== samplingKey(settings))) {
		notes.push('The batch will sample per row: this tab’s settings differ from the other tabs (Strict).');
	}
	return notes;
}

export const gateModeWords: Record<GateMode, { name: string; explanation: string }> = {
	split: {
		name: 'Split',
		explanation: 'Only tabs that need it sample per row; the others stay fused, whatever their settings.',
	},
	strict: {
		name: 'Strict',
		explanation: 'One tab in need, or settings that differ, sends every tab down the per-row path.',
	},
};
