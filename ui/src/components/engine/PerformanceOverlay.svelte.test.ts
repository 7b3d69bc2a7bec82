import { fireEvent, render, screen, within } from '@testing-library/svelte';
import { expect, it, vi } from 'vitest';
import type { EngineStatus } from '../../lib/ipc/wire';
import { rowOf, statusOf } from '../../lib/testing/samples';
import PerformanceOverlay from './PerformanceOverlay.svelte';

const logprobs = { path: 'perRow' as const, reasons: ['logprobs' as const], sinceStep: 5 };
const status = statusOf({
	gateMode: 'strict',
	rows: [
		rowOf({ requestId: 'a', conversationId: '1', gate: { ...logprobs, causedByConversationId: null } }),
		rowOf({ requestId: 'b', conversationId: '2', gate: { ...logprobs, causedByConversationId: '1' } }),
		rowOf({ requestId: 'c', conversationId: '3', phase: 'queued', ahead: 2, gate: null, decodeTokS: null }),
	],
	steps: {
		...statusOf().steps,
		totalTokS: 66.5,
		batchRows: 2,
		decodeSteps: 40,
		fusedSteps: 30,
		perRowSteps: 10,
		stepMsP50: 30.2,
		forwardMsP50: 2.1,
		sampleMsP50: 1.4,
		waitMsP50: 25.6,
		hostMsP50: 1.1,
		evalsPerStep: 2,
		waitsPerStep: 2,
		hostReadsPerStep: 2,
		recent: [
			{ step: 38, batchRows: 2, perRowRows: 0, stepMs: 28 },
			{ step: 39, batchRows: 2, perRowRows: 1, stepMs: 30 },
			{ step: 40, batchRows: 2, perRowRows: 2, stepMs: 34 },
		],
	},
	memory: {
		modelBytes: 538_000_000,
		kvCacheBytes: 94_371_840,
		activeBytes: 640_000_000,
		peakBytes: 702_000_000,
		limitBytes: 8_589_934_592,
		snapshotBytes: 20_971_520,
		prefillBytes: 0,
		reservedBytes: 0,
		kvBytesPerToken: 23_040,
		freeBytes: 2_147_483_648,
	},
});

function overlay(shown: EngineStatus | null, silentForS: number | null = null) {
	const [onmode, onoverlap] = [vi.fn(), vi.fn()];
	render(PerformanceOverlay, {
		status: shown,
		silentForS,
		titleOf: (id: string) => `Tab ${id}`,
		onmode,
		onoverlap,
		onclose: () => {},
	});
	return { onmode, onoverlap, root: screen.getByTestId('performance-overlay') };
}

it('shows what the engine measured', () => {
	const { root } = overlay(status);
	const text = root.textContent?.replace(/\s+/g, ' ');
	for (const figure of ['66.5 tok/s', 'batch of 2', '30 ms', '1.4 ms', '26 ms', '30 fused steps']) {
		expect(text).toContain(figure);
	}
	expect(root.dataset).toMatchObject({
		batchRows: '2',
		waitsPerStep: '2',
		hostReadsPerStep: '2',
		evalsPerStep: '2',
	});
});

it('gives every tab a lane with its path, reason and cause', () => {
	overlay(status);
	const [own, slowed, queued] = screen.getAllByTestId('lane');
	expect(own?.textContent).toContain('per row: logprobs');
	expect(slowed?.textContent).toContain('slowed by “Tab 1”');
	expect(slowed?.dataset).toMatchObject({ path: 'perRow', reasons: 'logprobs', cause: '1' });
	expect(queued?.textContent).toContain('Queued, 2 ahead');
});

it('says how much memory is left, and for how many more chats like these', () => {
	overlay(status);
	const gauge = screen.getByTestId('headroom');
	expect(gauge.textContent).toContain('2.0 GiB free of 8.0 GiB');
	expect(gauge.dataset['room']).toBe(String(Math.floor(2_147_483_648 / (49 * 23_040))));
});

it('says what each mode was measured to cost, and what was not measured', () => {
	const measured = [
		{ mode: 'strict' as const, batchRows: 4, steps: 80, stepMsP50: 21.2 },
		{ mode: 'split' as const, batchRows: 4, steps: 60, stepMsP50: 12.4 },
	];
	overlay({ ...status, modeEffects: measured });
	const effects = screen.getByTestId('mode-effects');
	expect(effects.textContent?.replace(/\s+/g, ' ')).toContain('4 rows');
	const words = screen
		.getAllByTestId('mode-effect')
		.map((line) => line.textContent?.replace(/\s+/g, ' ').trim());
	expect(words[0]).toContain('21 ms');
	expect(words[1]).toContain('12 ms');
	expect(words[2]).toContain('not measured yet');
});

it('names lanes of other programs and of the benchmark', () => {
	const own = { conversationId: null, gate: null };
	overlay({
		...status,
		rows: [
			rowOf({ ...own, requestId: 'x', source: 'server' }),
			rowOf({ ...own, requestId: 'y', source: 'benchmark' }),
		],
	});
	const [server, benchmark] = screen.getAllByTestId('lane');
	expect(server?.textContent).toContain('Local server');
	expect(benchmark?.textContent).toContain('Benchmark');
});

it('draws one bar per decode step, by kind', () => {
	overlay(status);
	const bars = screen.getByTestId('heartbeat').querySelectorAll('g');
	expect([...bars].map((bar) => bar.dataset['kind'])).toEqual(['fused', 'mixed', 'perRow']);
});

it('switches the batch mode and explains it', async () => {
	const { onmode, root } = overlay(status);
	expect(root.textContent).toContain('sends every tab down the per-row path');
	await fireEvent.click(within(root).getByRole('radio', { name: 'Split' }));
	expect(onmode).toHaveBeenCalledWith('split');
});

it('switches the overlap and says what the latest step did', async () => {
	const off = { ...status, steps: { ...status.steps, overlapOff: 'perRowRows' as const } };
	const { onoverlap, root } = overlay(off);
	expect(within(root).getByTestId('overlap-now').textContent).toBe(
		'Latest step: off: a tab samples per row.',
	);
	await fireEvent.click(within(root).getByRole('radio', { name: 'On' }));
	expect(onoverlap).toHaveBeenCalledWith('on');
});

it('shows no figure before there is one', () => {
	const { root } = overlay(statusOf());
	expect(root.textContent).toContain('No tab is answering.');
	expect(screen.getByTestId('step-split').textContent).not.toMatch(/\d/);
});

it('says so when the engine is silent', () => {
	expect(overlay(status, 9).root.textContent).toContain('has not reported for 9 s');
});
