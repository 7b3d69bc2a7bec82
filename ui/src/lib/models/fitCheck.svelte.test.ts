import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { CommandFailure } from '../ipc/backend';
import type { FitReport, FitVerdict } from '../ipc/wire';
import { fitReportOf } from '../testing/samples';
import { stubBackend } from '../testing/stubBackend';
import { FitCheck } from './fitCheck.svelte';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A computer on which contexts up to `fits` fit with room, and those up to `most` only just. */
function computer({ own, fits, most }: { own: number; fits: number; most: number }) {
	return vi.fn(async (_: string, chosen: number | null): Promise<FitReport> => {
		const contextTokens = chosen ?? own;
		const verdict: FitVerdict = contextTokens <= fits ? 'fits' : contextTokens <= most ? 'tight' : 'tooLarge';
		const offeredContextTokens = verdict === 'tooLarge' && most > 0 ? most : null;
		return fitReportOf({ contextTokens, modelContextTokens: own, verdict, offeredContextTokens });
	});
}

function checkOn(checkModelFit: ReturnType<typeof computer>) {
	return new FitCheck(stubBackend({ checkModelFit }), 'a');
}

it('leaves the context to Braid where the model’s own fits', async () => {
	const check = checkOn(computer({ own: 8192, fits: 8192, most: 8192 }));
	await check.start();
	expect(check.chosenTokens).toBeNull();
	expect(check.steps[check.stepIndex]).toBe(8192);
});

it('takes what is offered where that leaves room', async () => {
	const check = checkOn(computer({ own: 8192, fits: 5120, most: 5120 }));
	await check.start();
	expect(check.chosenTokens).toBe(5120);
	expect(check.fit?.verdict).toBe('fits');
	expect(check.steps).toContain(5120);
});

it('takes the step below where what is offered only just fits', async () => {
	const check = checkOn(computer({ own: 8192, fits: 4096, most: 5120 }));
	await check.start();
	expect(check.chosenTokens).toBe(4096);
	expect(check.fit?.verdict).toBe('fits');
});

it('stays with what is offered where no step leaves room', async () => {
	const check = checkOn(computer({ own: 8192, fits: 0, most: 5120 }));
	await check.start();
	expect(check.chosenTokens).toBe(5120);
	expect(check.fit?.verdict).toBe('tight');
});

it('asks once for a slider that is dragged, and for where it stopped', async () => {
	const answer = computer({ own: 8192, fits: 8192, most: 8192 });
	const check = checkOn(answer);
	await check.start();
	answer.mockClear();
	for (const step of [3, 2, 1, 0]) check.choose(step);
	expect(check.isChecking).toBe(true);
	await vi.advanceTimersByTimeAsync(200);
	expect(answer.mock.calls).toEqual([['a', 512]]);
	expect(check.fit?.contextTokens).toBe(512);
	expect(check.isChecking).toBe(false);
});

it('an answer that comes late does not replace the one for the latest choice', async () => {
	const answer = computer({ own: 8192, fits: 8192, most: 8192 });
	const check = checkOn(answer);
	await check.start();
	let release: (fit: FitReport) => void = () => {};
	answer.mockImplementationOnce(() => new Promise((resolve) => (release = resolve)));
	check.choose(0);
	await vi.advanceTimersByTimeAsync(200);
	check.choose(1);
	await vi.advanceTimersByTimeAsync(200);
	release(fitReportOf({ contextTokens: 512 }));
	await vi.advanceTimersByTimeAsync(0);
	expect(check.fit?.contextTokens).toBe(1024);
});

it('says why memory could not be reckoned', async () => {
	const check = checkOn(
		computer({ own: 1, fits: 1, most: 1 }).mockRejectedValue(
			new CommandFailure('modelUnusable', 'no header'),
		),
	);
	await check.start();
	expect(check.failure?.code).toBe('modelUnusable');
	expect(check.fit).toBeNull();
});
