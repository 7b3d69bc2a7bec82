import { percent as share, quoted } from '../format';
import { t } from '../i18n/language.svelte';
import type { TokenDetail } from '../ipc/wire';

/** How surprising a token was: from `sure` to `rare` as its probability falls. */
export type Surprise = 'sure' | 'likely' | 'open' | 'unlikely' | 'rare' | 'forced' | 'unknown';

export function surpriseOf({ isForced, logprob, alternatives }: TokenDetail): Surprise {
	if (isForced) return 'forced';
	// A token of no probability at all has no logprob, and is as rare as can be; without logprobs nothing is known.
	if (logprob === null) return alternatives.length > 0 ? 'rare' : 'unknown';
	const probability = Math.exp(logprob);
	if (probability >= 0.9) return 'sure';
	if (probability >= 0.5) return 'likely';
	if (probability >= 0.2) return 'open';
	return probability >= 0.05 ? 'unlikely' : 'rare';
}

/** A token's text on one line, with line breaks and tabs that can be seen. */
export function visibleText(text: string): string {
	return text.replace(/\n/g, '⏎').replace(/\t/g, '⇥');
}

/** The same between quotation marks. */
export function quotedText(text: string): string {
	return quoted(visibleText(text));
}

/** A probability from its logarithm: three digits, never a rounded 0 or 100 %. */
export function percent(logprob: number | null): string {
	if (logprob === null) return share(0);
	const value = 100 * Math.exp(logprob);
	if (value < 0.01) return t('chat:lessThanPercent', { percent: share(0.01, 2) });
	if (value > 99.99 && logprob < 0) return t('chat:moreThanPercent', { percent: share(99.9, 1) });
	return share(value, value >= 10 ? 1 : 2);
}
