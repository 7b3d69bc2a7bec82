import { t } from '../i18n/language.svelte';
import type { PhaseKind } from './tabPhase';

const running = {
	queued: 'engine:spokenQueued',
	prefilling: 'engine:spokenPrefilling',
	thinking: 'engine:spokenThinking',
	decoding: 'engine:spokenDecoding',
} as const;

const ended = {
	idle: 'engine:spokenFinished',
	stopped: 'engine:spokenStopped',
	failed: 'engine:spokenFailed',
} as const;

/**
 * What those who listen to the screen are told when a tab's phase changes; `null` if nothing. Progress within a phase
 * is not told, and an end only after a run: a conversation that is opened says nothing.
 */
export function spokenPhase(before: PhaseKind, now: PhaseKind): string | null {
	if (now === before) return null;
	if (now in running) return t(running[now as keyof typeof running]);
	return before in running ? t(ended[now as keyof typeof ended]) : null;
}
