import { percent } from '../format';
import { t } from '../i18n/language.svelte';
import type { AnswerPhase } from '../chat/applyStreamEvents';
import type { MessageState, RowStatus } from '../ipc/wire';

/** What the dot on a tab says. */
export type PhaseKind = 'idle' | 'queued' | 'prefilling' | 'thinking' | 'decoding' | 'stopped' | 'failed';

export interface TabPhase {
	kind: PhaseKind;
	/** In words, for the tooltip and for screen readers. */
	label: string;
	/** 0 to 1 while the prompt is read. */
	progress: number | null;
}

/** What is known about a tab's answer, from three places. */
export interface PhaseFacts {
	/** The engine's row. */
	row: RowStatus | null;
	/** Phase of the running answer, as its stream in this window says. */
	stream: AnswerPhase | null;
	/** An answer is known to run somewhere. */
	isRunning: boolean;
	/** State of the last message. */
	lastState: MessageState | null;
}

/** Phase of a tab. Its own stream is the freshest word, then the engine’s row, then what the last message says. */
export function tabPhase({ row, stream, isRunning, lastState }: PhaseFacts): TabPhase {
	if (stream && stream.kind !== 'ended' && stream.kind !== 'starting') return fromStream(stream);
	if (row && isRunning) return fromRow(row);
	if (isRunning) return { kind: 'queued', label: t('engine:phaseStarting'), progress: null };
	if (lastState === 'failed') return { kind: 'failed', label: t('engine:phaseFailed'), progress: null };
	if (lastState === 'stopped') return { kind: 'stopped', label: t('engine:phaseStopped'), progress: null };
	if (lastState === 'interrupted')
		return { kind: 'stopped', label: t('engine:phaseInterrupted'), progress: null };
	return { kind: 'idle', label: t('engine:phaseIdle'), progress: null };
}

function fromStream(stream: Exclude<AnswerPhase, { kind: 'ended' | 'starting' }>): TabPhase {
	if (stream.kind === 'queued') return queued(stream.ahead);
	if (stream.kind === 'prefilling') return reading(stream.doneTokens, stream.totalTokens);
	if (stream.kind === 'thinking')
		return { kind: 'thinking', label: t('engine:phaseThinking'), progress: null };
	return { kind: 'decoding', label: t('engine:phaseAnswering'), progress: null };
}

function fromRow(row: RowStatus): TabPhase {
	if (row.phase === 'queued') return queued(row.ahead);
	if (row.phase === 'prefilling') return reading(row.prefillDoneTokens, row.promptTokens);
	return { kind: 'decoding', label: t('engine:phaseAnswering'), progress: null };
}

function queued(ahead: number): TabPhase {
	const label = ahead === 0 ? t('engine:phaseQueuedNext') : t('engine:phaseQueued', { count: ahead });
	return { kind: 'queued', label, progress: null };
}

function reading(doneTokens: number, totalTokens: number): TabPhase {
	const progress = totalTokens === 0 ? 0 : Math.min(1, doneTokens / totalTokens);
	return {
		kind: 'prefilling',
		label: t('engine:phaseReading', { percent: percent(Math.floor(progress * 100)) }),
		progress,
	};
}
