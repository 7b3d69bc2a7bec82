// @vitest-environment node
import { beforeEach, expect, it, vi } from 'vitest';
import { FrameClock, FramePacer } from './framePacer';

beforeEach(() => {
	vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'queueMicrotask'] });
	// Frames at 60 a second.
	vi.stubGlobal('requestAnimationFrame', (run: () => void) => setTimeout(run, 16));
	vi.stubGlobal('cancelAnimationFrame', (frame: ReturnType<typeof setTimeout>) => clearTimeout(frame));
});

function run(minIntervalMs: number) {
	const clock = new FrameClock();
	clock.minIntervalMs = minIntervalMs;
	const drawn: { tab: string; items: number[]; atMs: number }[] = [];
	const start = performance.now();
	const pacer = (tab: string) =>
		new FramePacer<number>(clock, (items) => drawn.push({ tab, items, atMs: performance.now() - start }));
	return { drawn, a: pacer('a'), b: pacer('b') };
}

it('draws all tabs in the same frame, and loses nothing', () => {
	const { drawn, a, b } = run(0);
	a.push([1]);
	b.push([2]);
	a.push([3]);
	vi.advanceTimersByTime(20);
	expect(drawn).toEqual([
		{ tab: 'a', items: [1, 3], atMs: 16 },
		{ tab: 'b', items: [2], atMs: 16 },
	]);
});

it('draws no more often than it may', () => {
	const { drawn, a, b } = run(66);
	for (let i = 0; i < 100; i += 1) {
		(i % 2 ? a : b).push([i]);
		vi.advanceTimersByTime(10);
	}
	vi.advanceTimersByTime(200);
	const frames = [...new Set(drawn.map(({ atMs }) => atMs))];
	expect(frames.length).toBeLessThanOrEqual(17);
	expect(drawn.flatMap(({ items }) => items).length).toBe(100);
	expect(frames.every((atMs, i) => i === 0 || atMs - (frames[i - 1] ?? 0) >= 66)).toBe(true);
});

it('goes on in a hidden window, which draws no frames', () => {
	vi.stubGlobal('requestAnimationFrame', () => 0);
	const { drawn, a } = run(0);
	a.push([1]);
	vi.advanceTimersByTime(130);
	expect(drawn.map(({ items }) => items)).toEqual([[1]]);
});
