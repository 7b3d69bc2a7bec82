import { expect, it, vi } from 'vitest';
import { CommandFailure } from '../ipc/backend';
import { stubBackend } from '../testing/stubBackend';
import { Benchmark } from './benchmark.svelte';

it('tells how far it is and ends with a report', async () => {
	const benchmark = new Benchmark(stubBackend());
	const running = benchmark.start();
	await vi.waitFor(() => expect(benchmark.progress?.doneRuns).toBeGreaterThan(0));
	await running;
	expect([benchmark.isRunning, benchmark.progress]).toEqual([false, null]);
	expect(benchmark.report?.arms.map(({ batchRows }) => batchRows)).toEqual([1, 2, 4, 8, 4, 4, 4]);
});

it('keeps the report of before when it is cancelled', async () => {
	const benchmark = new Benchmark(stubBackend());
	await benchmark.start();
	const before = benchmark.report;
	const running = benchmark.start();
	await vi.waitFor(() => expect(benchmark.progress).not.toBeNull());
	await benchmark.cancel();
	await running;
	expect(benchmark.report).toBe(before);
	expect([benchmark.isRunning, benchmark.isCancelling, benchmark.failure]).toEqual([false, false, null]);
	expect(benchmark.wasInterrupted).toBe(false);
});

it('says that an answer came first', async () => {
	const benchmark = new Benchmark(stubBackend({ runBenchmark: async () => null }));
	await benchmark.start();
	expect([benchmark.wasInterrupted, benchmark.report]).toEqual([true, null]);
});

it('says why it cannot start', async () => {
	const runBenchmark = () => Promise.reject(new CommandFailure('benchmarkBusy', '2 answers'));
	const benchmark = new Benchmark(stubBackend({ runBenchmark }));
	await benchmark.start();
	expect(benchmark.failure?.code).toBe('benchmarkBusy');
	expect(benchmark.isRunning).toBe(false);
});
