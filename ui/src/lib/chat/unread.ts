import type { Settings } from '../settings/settings.svelte';

/** Conversations whose latest answer ended while nobody looked; kept with the app's settings. */
export class Unread {
	#settings: Settings;

	constructor(settings: Settings) {
		this.#settings = settings;
	}

	has(conversationId: string): boolean {
		return this.#settings.value.unread.includes(conversationId);
	}

	mark(conversationId: string) {
		if (!this.has(conversationId)) this.#write([...this.#settings.value.unread, conversationId]);
	}

	clear(conversationId: string) {
		if (this.has(conversationId)) {
			this.#write(this.#settings.value.unread.filter((id) => id !== conversationId));
		}
	}

	#write(unread: string[]) {
		this.#settings.change({ unread });
	}
}
