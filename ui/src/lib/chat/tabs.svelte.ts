import type { Backend } from '../ipc/backend';
import { ChatTab } from './chatTab.svelte';
import { FrameClock } from './framePacer';

/** The open tabs, left to right, and which one is shown. */
export class Tabs {
	open = $state.raw<ChatTab[]>([]);
	activeId = $state<string | null>(null);
	/** When text that has arrived is drawn, for all tabs. */
	readonly frames = new FrameClock();
	#backend: Backend;
	/** Called when the last running answer of a tab has ended. */
	onAnswerEnd: (tabId: string) => void = () => {};
	#onAnswer: () => void;

	constructor(backend: Backend, onAnswer: () => void) {
		this.#backend = backend;
		this.#onAnswer = onAnswer;
	}

	get active(): ChatTab | null {
		return this.open.find((tab) => tab.id === this.activeId) ?? null;
	}

	byId(conversationId: string): ChatTab | null {
		return this.open.find((tab) => tab.id === conversationId) ?? null;
	}

	/** Shows the conversation, in its tab if it has one. */
	show(conversationId: string) {
		this.#leaveActive();
		if (!this.byId(conversationId)) this.#add(conversationId);
		this.activeId = conversationId;
	}

	/** Opens the tabs of the last run without showing each in turn. */
	restore(conversationIds: readonly string[], activeId: string | null) {
		for (const id of conversationIds) if (!this.byId(id)) this.#add(id);
		this.activeId = this.byId(activeId ?? '')?.id ?? this.open[0]?.id ?? null;
	}

	/** Takes the tab away and returns it; its right neighbour is shown next, else its left one. */
	remove(conversationId: string): ChatTab | null {
		const at = this.open.findIndex((tab) => tab.id === conversationId);
		const removed = this.open[at] ?? null;
		this.open = this.open.filter((tab) => tab !== removed);
		if (this.activeId === conversationId) this.activeId = (this.open[at] ?? this.open[at - 1])?.id ?? null;
		return removed;
	}

	/** Puts a tab at another place, counted from 0; beyond the ends it stays at the end. */
	move(conversationId: string, to: number) {
		const moved = this.byId(conversationId);
		if (!moved) return;
		const others = this.open.filter((tab) => tab !== moved);
		const place = Math.min(Math.max(0, to), others.length);
		this.open = [...others.slice(0, place), moved, ...others.slice(place)];
	}

	/** Shows the nth tab, counted from 0; does nothing beyond the last. */
	showAt(index: number) {
		const tab = this.open[index];
		if (tab) this.show(tab.id);
	}

	#add(conversationId: string) {
		const tab = new ChatTab(this.#backend, conversationId, this.#onAnswer, this.frames);
		tab.onAnswerEnd = (tabId) => this.onAnswerEnd(tabId);
		this.open = [...this.open, tab];
		void tab.open();
	}

	#leaveActive() {
		// A failure to save is shown in the tab itself; switching does not wait for the disk.
		void this.active?.draft.flush().catch(() => {});
		void this.active?.saveScroll();
	}
}
