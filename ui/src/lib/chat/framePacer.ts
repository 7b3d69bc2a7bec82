/**
 * Collects items and hands them over once per drawn frame.
 *
 * A hidden window draws no frames, so a timer takes over: an answer goes on while nobody looks.
 */
export class FramePacer<T> {
	#pending: T[] = [];
	#frame: number | null = null;
	#timer: ReturnType<typeof setTimeout> | null = null;
	#flush: (items: T[]) => void;

	constructor(flush: (items: T[]) => void) {
		this.#flush = flush;
	}

	push(items: readonly T[]) {
		this.#pending.push(...items);
		if (this.#timer !== null) return;
		this.#frame = requestAnimationFrame(() => this.flush());
		this.#timer = setTimeout(() => this.flush(), 120);
	}

	/** Hands over what is there now. */
	flush() {
		if (this.#frame !== null) cancelAnimationFrame(this.#frame);
		if (this.#timer !== null) clearTimeout(this.#timer);
		this.#frame = null;
		this.#timer = null;
		if (this.#pending.length === 0) return;
		const items = this.#pending;
		this.#pending = [];
		this.#flush(items);
	}
}
