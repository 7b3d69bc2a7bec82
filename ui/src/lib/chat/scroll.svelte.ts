import { tick } from 'svelte';
import type { ScrollPlace } from '../ipc/wire';

/** Distance from the end, in pixels, within which the reader counts as being at it. */
const endZonePx = 32;

/** Space above a message that the list was scrolled to, in pixels. */
const targetMarginPx = 16;

/** A reader who has not moved for so long rests. */
const restAfterMs = 700;

/**
 * Keeps a scrolled list at its end while the reader is there, and never moves it otherwise.
 *
 * The only code that sets `scrollTop` of the list. One per open conversation: it also remembers the place
 * while another tab is shown.
 */
export class ScrollKeeper {
	/** Whether the list follows new text. */
	isFollowing = $state(true);
	#viewport: HTMLElement | null = null;
	#place = 0;
	#lastTop = 0;
	/** Where this class last scrolled to, until the scroll event of that arrives: it is nobody's wish to follow. */
	#ownTop: number | null = null;
	/** What is kept in sight while the list still takes its shape; the reader's first move ends that. */
	#target: ScrollPlace | null = null;
	/** Called when the reader has rested somewhere else than before. */
	onRest: () => void = () => {};
	#restTimer: ReturnType<typeof setTimeout> | undefined;

	/** Attachment for the scrolling element, whose first child is the content. */
	attach = (viewport: HTMLElement) => {
		this.#viewport = viewport;
		if (this.isFollowing) this.#toEnd();
		else if (this.#target === null) viewport.scrollTop = this.#place;
		else this.#toTarget();
		this.#lastTop = viewport.scrollTop;
		const resized = new ResizeObserver(() => {
			if (this.isFollowing) this.#toEnd();
			else this.#toTarget();
		});
		resized.observe(viewport);
		if (viewport.firstElementChild) resized.observe(viewport.firstElementChild);
		const listeners = new AbortController();
		const { signal } = listeners;
		viewport.addEventListener('scroll', () => this.#onScroll(), { passive: true, signal });
		// A wheel turned upwards counts at once: waiting for the scroll event loses against the next frame of text.
		viewport.addEventListener(
			'wheel',
			(event) => {
				this.#target = null;
				if (event.deltaY < 0 && viewport.scrollHeight > viewport.clientHeight) this.isFollowing = false;
			},
			{ passive: true, signal },
		);
		return () => {
			listeners.abort();
			clearTimeout(this.#restTimer);
			resized.disconnect();
			this.#viewport = null;
		};
	};

	/** Goes to a message, now or once the list is on screen, and stays there. */
	goTo(messageId: string) {
		this.restore({ messageId, abovePx: -targetMarginPx });
	}

	/** Goes back to where a reader was. */
	restore(place: ScrollPlace) {
		this.isFollowing = false;
		this.#target = place;
		void tick().then(() => this.#toTarget());
	}

	/** Where the reader is; `null` at the end, `undefined` while the list is not on screen. */
	place(): ScrollPlace | null | undefined {
		const viewport = this.#viewport;
		if (!viewport) return undefined;
		if (this.isFollowing) return null;
		const { top } = viewport.getBoundingClientRect();
		const first = this.#messages(viewport).find((message) => message.getBoundingClientRect().bottom > top);
		const messageId = first?.dataset['messageId'];
		if (!first || messageId === undefined) return null;
		return { messageId, abovePx: top - first.getBoundingClientRect().top };
	}

	/** Goes to the end and follows from there. */
	jumpToEnd() {
		this.isFollowing = true;
		this.#target = null;
		this.#toEnd();
	}

	#toEnd() {
		if (this.#viewport) this.#scrollTo(this.#viewport, this.#viewport.scrollHeight);
	}

	#toTarget() {
		const viewport = this.#viewport;
		if (!viewport || this.#target === null) return;
		const { messageId, abovePx } = this.#target;
		const message = this.#messages(viewport).find((element) => element.dataset['messageId'] === messageId);
		if (!message) return;
		const below = message.getBoundingClientRect().top - viewport.getBoundingClientRect().top;
		this.#scrollTo(viewport, viewport.scrollTop + below + abovePx);
		this.#place = viewport.scrollTop;
	}

	#messages(viewport: HTMLElement): HTMLElement[] {
		return [...viewport.querySelectorAll<HTMLElement>('[data-message-id]')];
	}

	#scrollTo(viewport: HTMLElement, top: number) {
		const before = viewport.scrollTop;
		viewport.scrollTop = top;
		this.#lastTop = viewport.scrollTop;
		if (this.#lastTop !== before) this.#ownTop = this.#lastTop;
	}

	#onScroll() {
		const viewport = this.#viewport;
		if (!viewport) return;
		const top = viewport.scrollTop;
		const isOwn = top === this.#ownTop;
		this.#ownTop = null;
		if (isOwn) return;
		this.#target = null;
		const fromEnd = viewport.scrollHeight - top - viewport.clientHeight;
		// Text growing below also leaves the end zone; only a move upwards is the reader's.
		if (top < this.#lastTop - 1 && fromEnd > endZonePx) this.isFollowing = false;
		else if (fromEnd <= endZonePx && top > this.#lastTop) this.isFollowing = true;
		this.#lastTop = top;
		this.#place = top;
		clearTimeout(this.#restTimer);
		this.#restTimer = setTimeout(() => this.onRest(), restAfterMs);
	}
}
