import { t } from '../i18n/language.svelte';
import type { Backend } from '../ipc/backend';
import type { ConversationSummary } from '../ipc/wire';

/** The sidebar's list, latest first, as Rust has it. */
export class Conversations {
	all = $state.raw<ConversationSummary[]>([]);
	#backend: Backend;

	constructor(backend: Backend) {
		this.#backend = backend;
	}

	byId(id: string): ConversationSummary | null {
		return this.all.find((summary) => summary.id === id) ?? null;
	}

	/** Name on screen. */
	titleOf(id: string): string {
		return this.byId(id)?.title.trim() || t('conversations:untitled');
	}

	async refresh(): Promise<void> {
		this.all = await this.#backend.listConversations();
	}

	async create(): Promise<ConversationSummary> {
		const created = await this.#backend.createConversation();
		await this.refresh();
		return created;
	}

	async rename(id: string, title: string): Promise<void> {
		await this.#backend.renameConversation(id, title);
		await this.refresh();
	}

	async pin(id: string): Promise<void> {
		await this.#backend.pinConversation(id);
		await this.refresh();
	}

	async unpin(id: string): Promise<void> {
		await this.#backend.unpinConversation(id);
		await this.refresh();
	}

	async remove(id: string): Promise<void> {
		await this.#backend.deleteConversation(id);
		await this.refresh();
	}

	async restore(id: string): Promise<void> {
		await this.#backend.restoreConversation(id);
		await this.refresh();
	}
}
