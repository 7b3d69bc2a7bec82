/**
 * When the window is drawn for new text: everybody who has some is asked together, once per drawn frame, and no more
 * often than `minIntervalMs`.
 *
 * One for all tabs: a frame asked for by a tab in the background costs as much as any other. A hidden window draws no
 * frames, so a timer takes over: an answer goes on while nobody looks.
 */
export class FrameClock {
	minIntervalMs = 0;
	#waiting: (() => void)[] = [];
	#isAsked = false;
	#lastMs = -Infinity;

	/** Runs `work` with the next frame that is due. */
	request(work: () => void) {
		this.#waiting.push(work);
		if (this.#isAsked) return;
		this.#isAsked = true;
		const waitMs = this.#lastMs + this.minIntervalMs - performance.now();
		if (waitMs > 0) setTimeout(() => this.#ask(), waitMs);
		else this.#ask();
	}

	#ask() {
		const frame = requestAnimationFrame(() => tick());
		const timer = setTimeout(() => tick(), 120);
		const tick = () => {
			cancelAnimationFrame(frame);
			clearTimeout(timer);
			this.#tick();
		};
	}

	#tick() {
		this.#lastMs = performance.now();
		this.#isAsked = false;
		const waiting = this.#waiting;
		this.#waiting = [];
		// Each on its own: one that fails takes no other with it. All are done before the frame is drawn.
		for (const work of waiting) queueMicrotask(work);
	}
}

/** Collects items and hands them over with the clock's next frame. */
export class FramePacer<T> {
	#pending: T[] = [];
	#clock: FrameClock;
	#flush: (items: T[]) => void;

	constructor(clock: FrameClock, flush: (items: T[]) => void) {
		this.#clock = clock;
		this.#flush = flush;
	}

	push(items: readonly T[]) {
		if (items.length === 0) return;
		if (this.#pending.length === 0) this.#clock.request(() => this.#handOver());
		this.#pending.push(...items);
	}

	#handOver() {
		const items = this.#pending;
		this.#pending = [];
		this.#flush(items);
	}
}
