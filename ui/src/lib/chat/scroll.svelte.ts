import { tick } from 'svelte';
import type { ScrollPlace } from '../ipc/wire';

/** Distance from the end, in pixels, within which the reader counts as being at it. */
const endZonePx = 32;

/** Space above a message that the list was scrolled to, in pixels. */
const targetMarginPx = 16;

/** A reader who has not moved for so long rests. */
const restAfterMs = 700;

/** What the reader looks at: it stays where it is while things above it change their height. */
interface Anchor {
	/** The block at the top of the view, or its message. */
	element: Element;
	/** How far the element's top lies above the top of the view, in pixels. */
	abovePx: number;
}

/**
 * Keeps a scrolled list at its end while the reader is there, and what they look at in its place otherwise.
 *
 * The only code that sets `scrollTop` of the list. One per open conversation: it also remembers the place
 * while another tab is shown.
 */
export class ScrollKeeper {
	/** Whether the list follows new text. */
	isFollowing = $state(true);
	#viewport: HTMLElement | null = null;
	#top = 0;
	#anchor: Anchor | null = null;
	#place: ScrollPlace | null = null;
	#lastTop = 0;
	/** Where this class last scrolled to, until the scroll event of that arrives: it is nobody's wish to follow. */
	#ownTop: number | null = null;
	/** What is kept in sight while the list still takes its shape; the reader's first move ends that. */
	#target: ScrollPlace | null = null;
	/** Called when the reader has rested somewhere else than before. */
	onRest: () => void = () => {};
	#restTimer: ReturnType<typeof setTimeout> | undefined;

	/** The message that will be in sight when the list is put on screen; `null` for the last. */
	get awaitedId(): string | null {
		if (this.isFollowing) return null;
		return (this.#target ?? this.#place)?.messageId ?? null;
	}

	/** Attachment for the scrolling element, whose first child is the content, whose children are the messages. */
	attach = (viewport: HTMLElement) => {
		this.#viewport = viewport;
		this.#anchor = null;
		if (!this.isFollowing && this.#target === null) viewport.scrollTop = this.#top;
		this.#settle();
		this.#lastTop = viewport.scrollTop;
		const resized = new ResizeObserver(() => this.#settle());
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
				if (event.deltaY < 0 && viewport.scrollHeight > viewport.clientHeight) this.#leaveEnd(viewport);
			},
			{ passive: true, signal },
		);
		return () => {
			listeners.abort();
			clearTimeout(this.#restTimer);
			resized.disconnect();
			this.#viewport = null;
			this.#anchor = null;
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
		if (!this.#viewport) return undefined;
		if (this.isFollowing) return null;
		this.#note(this.#viewport);
		return this.#place;
	}

	/** Goes to the end and follows from there. */
	jumpToEnd() {
		this.isFollowing = true;
		this.#target = null;
		this.#toEnd();
	}

	/** Puts the list where it belongs after something in it has changed its height. */
	#settle() {
		if (this.isFollowing) {
			// A message that is edited must not go out of sight because its field grew.
			if (!isEditedIn(this.#viewport)) this.#toEnd();
		} else if (this.#target !== null) this.#toTarget();
		else this.#toAnchor();
	}

	#toEnd() {
		if (this.#viewport) this.#scrollTo(this.#viewport, this.#viewport.scrollHeight);
	}

	#toTarget() {
		const viewport = this.#viewport;
		if (!viewport || this.#target === null) return;
		const { messageId, abovePx } = this.#target;
		const message = messageOf(viewport, messageId);
		if (!message) return;
		this.#scrollTo(viewport, viewport.scrollTop + belowTop(message, viewport) + abovePx);
		this.#note(viewport);
	}

	#toAnchor() {
		const viewport = this.#viewport;
		if (!viewport) return;
		const anchor = this.#anchor?.element.isConnected ? this.#anchor : null;
		const element = anchor?.element ?? (this.#place && messageOf(viewport, this.#place.messageId));
		if (!element) return;
		const abovePx = anchor?.abovePx ?? this.#place?.abovePx ?? 0;
		const movedPx = belowTop(element, viewport) + abovePx;
		if (Math.abs(movedPx) >= 1) this.#scrollTo(viewport, viewport.scrollTop + movedPx);
		if (!anchor) this.#note(viewport);
	}

	#scrollTo(viewport: HTMLElement, top: number) {
		const before = viewport.scrollTop;
		viewport.scrollTop = top;
		this.#lastTop = viewport.scrollTop;
		if (this.#lastTop !== before) this.#ownTop = this.#lastTop;
	}

	#leaveEnd(viewport: HTMLElement) {
		if (!this.isFollowing) return;
		this.isFollowing = false;
		this.#note(viewport);
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
		this.#note(viewport);
		clearTimeout(this.#restTimer);
		this.#restTimer = setTimeout(() => this.onRest(), restAfterMs);
	}

	/** Remembers what stands at the top of the view. */
	#note(viewport: HTMLElement) {
		this.#top = viewport.scrollTop;
		const first = firstInSight(viewport.firstElementChild?.children, viewport);
		// The height of one that is not drawn is a guess: what stands below it is what must not move.
		const message = first?.matches('[data-undrawn]') ? (first.nextElementSibling ?? first) : first;
		const messageId = message && idOf(message);
		if (!message || messageId === null || messageId === undefined) return;
		this.#place = { messageId, abovePx: -belowTop(message, viewport) };
		const blocks = message.querySelector('[data-testid="answer-text"]')?.children;
		const element = firstInSight(blocks, viewport) ?? message;
		this.#anchor = { element, abovePx: -belowTop(element, viewport) };
	}
}

function isEditedIn(viewport: HTMLElement | null): boolean {
	const { activeElement } = document;
	return activeElement instanceof HTMLTextAreaElement && viewport?.contains(activeElement) === true;
}

function belowTop(element: Element, viewport: HTMLElement): number {
	return element.getBoundingClientRect().top - viewport.getBoundingClientRect().top;
}

function idOf(element: Element): string | null {
	const message = element.matches('[data-message-id]') ? element : element.querySelector('[data-message-id]');
	return message?.getAttribute('data-message-id') ?? null;
}

function messageOf(viewport: HTMLElement, messageId: string): Element | null {
	return viewport.querySelector(`[data-message-id=${JSON.stringify(messageId)}]`);
}

/** The first of elements that stand below each other whose end is in or below the view. */
function firstInSight(elements: HTMLCollection | undefined, viewport: HTMLElement): Element | null {
	if (!elements || elements.length === 0) return null;
	const topPx = viewport.getBoundingClientRect().top;
	let [from, to] = [0, elements.length - 1];
	while (from < to) {
		const middle = (from + to) >> 1;
		const endPx = elements[middle]?.getBoundingClientRect().bottom ?? 0;
		if (endPx > topPx + 1) to = middle;
		else from = middle + 1;
	}
	return elements[from] ?? null;
}
