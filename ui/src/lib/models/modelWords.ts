import { bytes, count, plural } from '../format';
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
	if (seconds < 60) return `${seconds} s left`;
	const minutes = Math.ceil(seconds / 60);
	if (minutes < 60) return `${minutes} min left`;
	const hours = Math.floor(minutes / 60);
	if (hours >= 48) return `${Math.round(hours / 24)} days left`;
	return minutes % 60 === 0 ? `${hours} h left` : `${hours} h ${minutes % 60} min left`;
}

/** A number that need not be exact: 950, 12.3k, 4.5M. */
export function roundCount(value: number): string {
	const units = [
		[1e6, 'M'],
		[1e3, 'k'],
	] as const;
	for (const [size, unit] of units) {
		if (value >= size) {
			const share = value / size;
			return `${share >= 100 ? share.toFixed(0) : share.toFixed(1)}${unit}`;
		}
	}
	return value.toFixed(0);
}

/** The day of a date as the hub writes it; empty if that is no date. */
export function dayOf(written: string | null): string {
	return /^\d{4}-\d\d-\d\d/.exec(written ?? '')?.[0] ?? '';
}

export function originWords(origin: ModelOrigin): string {
	switch (origin.kind) {
		case 'bundled':
			return 'came with Braid';
		case 'own':
			return 'in Braid’s folder';
		case 'hub':
			return origin.repo;
		case 'reference':
			return 'used where it lies';
	}
}

/** Architecture, quantisation, context and size, as far as they are known. */
export function factsOf(model: ModelEntry): string[] {
	const { architecture, quantisation, contextTokens, diskBytes } = model;
	const context = contextTokens === null ? null : `${count(contextTokens)} tokens of context`;
	return [architecture, quantisation, bytes(diskBytes), context].filter((fact) => fact !== null);
}

/** Where a download stands, in one line. */
export function downloadWords({ phase, doneBytes, totalBytes, bytesPerS, leftMs }: DownloadStatus): string {
	const soFar = `${bytes(doneBytes)} of ${bytes(totalBytes)}`;
	switch (phase.kind) {
		case 'queued':
			return `Waits for the other downloads · ${soFar}`;
		case 'running': {
			if (bytesPerS <= 0) return `${soFar} · waiting for the hub`;
			return [soFar, `${bytes(bytesPerS)}/s`, ...(leftMs === null ? [] : [timeLeft(leftMs)])].join(' · ');
		}
		case 'paused':
			return `Paused · ${soFar}`;
		case 'verifying':
			return 'Checking that every file is what the hub announced';
		case 'failed':
			return `Stopped · ${soFar}`;
		case 'done':
			return `Complete · ${bytes(totalBytes)}`;
	}
}

const memoryWords = { unified: 'memory', discrete: 'the GPU’s memory', host: 'memory' } as const;

/** The verdict of a fit, with the numbers that it stands on. */
export function verdictWords(fit: FitReport): string {
	const needed = bytes(fit.neededBytes);
	const free = `${bytes(fit.freeBytes)} of ${memoryWords[fit.memoryKind]} ${fit.memoryKind === 'discrete' ? 'is' : 'are'} free`;
	switch (fit.verdict) {
		case 'fits':
			return `It fits: it needs ${needed}, and ${free}.`;
		case 'tight':
			return `It fits, but only just: it needs ${needed}, and ${free}. Other programs may become slow.`;
		case 'tooLarge':
			return `It does not fit: it needs ${needed}, and ${free}.`;
	}
}

/** What a smaller context would change; `null` if nothing is offered. */
export function offerWords({ offeredContextTokens }: FitReport): string | null {
	if (offeredContextTokens === null) return null;
	return `With a context of ${plural(offeredContextTokens, 'token')} it would fit.`;
}

const smallestContextTokens = 512;

/** Contexts to choose from, smallest first: doublings up to the model's own, with those that must be among them. */
export function contextSteps(modelContextTokens: number, others: readonly (number | null)[] = []): number[] {
	const steps = new Set([modelContextTokens]);
	for (let tokens = smallestContextTokens; tokens < modelContextTokens; tokens *= 2) steps.add(tokens);
	for (const tokens of others) if (tokens !== null && tokens <= modelContextTokens) steps.add(tokens);
	return [...steps].sort((a, b) => a - b);
}
