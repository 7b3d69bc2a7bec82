import { bytes, tokens } from '../format';
import { t } from '../i18n/language.svelte';
import type { DownloadStatus, FitReport, ModelEntry, ModelOrigin } from '../ipc/wire';

/** Share of a whole in percent, 0 while the whole is not known; 100 only when all of it is there. */
export function percent(done: number, total: number): number {
	if (total <= 0) return 0;
	return Math.max(0, Math.min(100, Math.floor((done / total) * 100)));
}

/** Last part of a path, whichever way its slashes lean. */
export function nameOfPath(path: string): string {
	return path.split(/[\\/]/).findLast((part) => part !== '') ?? path;
}

/** Time that is left, rounded as a person would say it. */
export function timeLeft(leftMs: number): string {
	const seconds = Math.ceil(leftMs / 1000);
	if (seconds < 60) return t('units:secondsLeft', { count: seconds });
	const minutes = Math.ceil(seconds / 60);
	if (minutes < 60) return t('units:minutesLeft', { count: minutes });
	const hours = Math.floor(minutes / 60);
	if (hours >= 48) return t('units:daysLeft', { count: Math.round(hours / 24) });
	if (minutes % 60 === 0) return t('units:hoursLeft', { count: hours });
	return t('units:hoursAndMinutesLeft', { hours, minutes: minutes % 60 });
}

/** The day of a date as the hub writes it; empty if that is no date. */
export function dayOf(written: string | null): string {
	return /^\d{4}-\d\d-\d\d/.exec(written ?? '')?.[0] ?? '';
}

export function originWords(origin: ModelOrigin): string {
	switch (origin.kind) {
		case 'bundled':
			return t('models:originBundled');
		case 'own':
			return t('models:originOwn');
		case 'hub':
			return origin.repo;
		case 'reference':
			return t('models:originReference');
	}
}

/** Architecture, quantisation, context and size, as far as they are known. */
export function factsOf(model: ModelEntry): string[] {
	const { architecture, quantisation, contextTokens, diskBytes } = model;
	const context = contextTokens === null ? null : t('models:factContext', { count: contextTokens });
	return [architecture, quantisation, bytes(diskBytes), context].filter((fact) => fact !== null);
}

/** Where a download stands, in one line. */
export function downloadWords({ phase, doneBytes, totalBytes, bytesPerS, leftMs }: DownloadStatus): string {
	const soFar = t('models:bytesOf', { done: bytes(doneBytes), all: bytes(totalBytes) });
	switch (phase.kind) {
		case 'queued':
			return t('models:downloadQueued', { soFar });
		case 'running': {
			if (bytesPerS <= 0) return t('models:downloadWaiting', { soFar });
			const speed = t('models:downloadSpeed', { size: bytes(bytesPerS) });
			return [soFar, speed, ...(leftMs === null ? [] : [timeLeft(leftMs)])].join(' · ');
		}
		case 'paused':
			return t('models:downloadPaused', { soFar });
		case 'verifying':
			return t('models:downloadVerifying');
		case 'failed':
			return t('models:downloadStopped', { soFar });
		case 'done':
			return t('models:downloadComplete', { size: bytes(totalBytes) });
	}
}

/** The verdict of a fit, with the numbers that it stands on. */
export function verdictWords(fit: FitReport): string {
	const free = { free: bytes(fit.freeBytes) };
	const isDiscrete = fit.memoryKind === 'discrete';
	return t(`models:${fit.verdict}`, {
		needed: bytes(fit.neededBytes),
		free: isDiscrete ? t('models:freeDiscrete', free) : t('models:freeUnified', free),
	});
}

/** What a smaller context would change; `null` if nothing is offered. */
export function offerWords({ offeredContextTokens }: FitReport): string | null {
	if (offeredContextTokens === null) return null;
	return t('models:offer', { tokens: tokens(offeredContextTokens) });
}

const smallestContextTokens = 512;

/** Contexts to choose from, smallest first: doublings up to the model's own, with those that must be among them. */
export function contextSteps(modelContextTokens: number, others: readonly (number | null)[] = []): number[] {
	const steps = new Set([modelContextTokens]);
	for (let tokens = smallestContextTokens; tokens < modelContextTokens; tokens *= 2) steps.add(tokens);
	for (const tokens of others) if (tokens !== null && tokens <= modelContextTokens) steps.add(tokens);
	return [...steps].sort((a, b) => a - b);
}
