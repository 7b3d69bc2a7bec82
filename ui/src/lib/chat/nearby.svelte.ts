import { SvelteSet } from 'svelte/reactivity';
import type { MessageView } from '../ipc/wire';

/** A conversation of fewer characters is drawn at once. */
const drawnAtOnceCharacters = 40_000;

/** Characters on each side of what is shown first. */
const firstCharacters = 5000;

/** How much is drawn beyond what is in sight, in heights of the view. */
const marginViews = 1.5;

/** Beyond this, what is drawn costs nothing until it comes nearer. */
const farViews = 3;

/**
 * Which messages of a long conversation are drawn: those near what is in sight, and all that were there once.
 *
 * The others stand as plain text in a box of about their height, so that searching the page and a screen reader find
 * them too. One for each time the list is put on screen.
 */
export class NearbyMessages {
	#undrawn: SvelteSet<string>;
	#frame: number | null = null;

	/** `shownId` is the message that is looked at first; `null` for the last. */
	constructor(messages: readonly MessageView[], shownId: string | null) {
		this.#undrawn = new SvelteSet(farFrom(messages, shownId));
	}

	/** Messages that came after the list was put on screen are. */
	isDrawn(messageId: string): boolean {
		return !this.#undrawn.has(messageId);
	}

	/** Attachment for the scrolling element, whose first child has the messages as children. */
	attach = (viewport: HTMLElement) => {
		const content = viewport.firstElementChild;
		if (!content) return;
		// What is in sight is drawn before the frame is; what is near may take some frames.
		const look = () => {
			this.#draw(messagesIn(viewport, content), { withinViews: 0, most: Infinity });
			this.#frame ??= requestAnimationFrame(() => this.#lookAround(viewport, content));
		};
		const resized = new ResizeObserver(look);
		resized.observe(viewport);
		resized.observe(content);
		viewport.addEventListener('scroll', look, { passive: true });
		return () => {
			resized.disconnect();
			viewport.removeEventListener('scroll', look);
			if (this.#frame !== null) cancelAnimationFrame(this.#frame);
			this.#frame = null;
		};
	};

	#lookAround(viewport: HTMLElement, content: Element) {
		this.#frame = null;
		const messages = messagesIn(viewport, content);
		for (const { element, viewsAway } of messages) element.toggleAttribute('data-far', viewsAway > farViews);
		const drawn = this.#draw(messages, { withinViews: marginViews, most: 1 });
		if (drawn > 0) this.#frame = requestAnimationFrame(() => this.#lookAround(viewport, content));
	}

	#draw(messages: Placed[], { withinViews, most }: { withinViews: number; most: number }): number {
		if (this.#undrawn.size === 0) return 0;
		const near = messages.filter(
			({ element, viewsAway }) => viewsAway <= withinViews && element.dataset['undrawn'] !== undefined,
		);
		// The lowest first: it is next to what is being read.
		const drawn = near.slice(-most);
		for (const { element } of drawn) this.#undrawn.delete(element.dataset['messageId'] ?? '');
		return drawn.length;
	}
}

interface Placed {
	element: HTMLElement;
	/** How far it is out of sight, in heights of the view. */
	viewsAway: number;
}

function messagesIn(viewport: HTMLElement, content: Element): Placed[] {
	const { top, bottom, height } = viewport.getBoundingClientRect();
	return [...(content.children as HTMLCollectionOf<HTMLElement>)].map((element) => {
		const box = element.getBoundingClientRect();
		return { element, viewsAway: Math.max(0, box.top - bottom, top - box.bottom) / Math.max(1, height) };
	});
}

function farFrom(messages: readonly MessageView[], shownId: string | null): string[] {
	const all = messages.reduce((sum, { text }) => sum + text.length, 0);
	if (all < drawnAtOnceCharacters) return [];
	const found = messages.findIndex(({ id }) => id === shownId);
	const shown = found === -1 ? messages.length - 1 : found;
	let [from, to] = [shown, shown];
	for (let left = firstCharacters; from > 0 && left > 0; from -= 1) left -= messages[from]?.text.length ?? 0;
	for (let left = firstCharacters; to < messages.length - 1 && left > 0; to += 1)
		left -= messages[to]?.text.length ?? 0;
	return messages.filter((_, i) => i < from || i > to).map(({ id }) => id);
}

/** About the height of a message that is not drawn, in pixels. */
export function guessedHeightPx({ role, text }: MessageView): number {
	if (role === 'user') return 44 + Math.floor(text.length / 80) * 25;
	return 40 + text.length * 0.42;
}
