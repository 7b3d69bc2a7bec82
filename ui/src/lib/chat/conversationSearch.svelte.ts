import { t } from '../i18n/language.svelte';
import { asFailure, type Backend, type CommandFailure } from '../ipc/backend';
import type { SearchHit } from '../ipc/wire';

const searchAfterMs = 150;

/** As many hits as the backend gives at most. */
const mostHits = 50;

/** The sidebar's search over titles and messages. */
export class ConversationSearch {
	query = $state('');
	/** What was found for the last query that came back; `null` while nothing is searched for. */
	hits = $state.raw<SearchHit[] | null>(null);
	failure = $state.raw<CommandFailure | null>(null);
	/** The hit that Enter opens. */
	chosen = $state(0);
	#backend: Backend;
	#timer: ReturnType<typeof setTimeout> | undefined;
	#turn = 0;
	#foundQuery = $state('');
	#field: HTMLInputElement | null = null;
	#isFocusWanted = false;

	constructor(backend: Backend) {
		this.#backend = backend;
	}

	/** Whether the hits are of an earlier query than the one that is typed. */
	get isStale(): boolean {
		return this.query !== this.#foundQuery;
	}

	get isActive(): boolean {
		return this.query.trim() !== '';
	}

	/** The outcome in words. */
	get said(): string {
		if (!this.isActive || this.hits === null) return '';
		const count = this.hits.length;
		if (count === 0) return t('conversations:foundNone');
		return count === mostHits
			? t('conversations:foundOrMore', { count })
			: t('conversations:foundCount', { count });
	}

	/** Attachment for the field. */
	attach = (field: HTMLInputElement) => {
		this.#field = field;
		if (this.#isFocusWanted) this.focus();
		return () => (this.#field = null);
	};

	/** Puts the caret into the field: now, or once the field is there. */
	focus() {
		this.#isFocusWanted = this.#field === null;
		this.#field?.focus();
		this.#field?.select();
	}

	/** Takes what is typed; the search follows once typing has paused. */
	type(query: string) {
		this.query = query;
		clearTimeout(this.#timer);
		if (this.isActive) this.#timer = setTimeout(() => void this.search(), searchAfterMs);
		else this.clear();
	}

	clear() {
		clearTimeout(this.#timer);
		this.#turn += 1;
		this.query = '';
		this.hits = null;
		this.failure = null;
	}

	/** Searches at once. Of two searches the later one counts, whichever comes back first. */
	async search(): Promise<void> {
		clearTimeout(this.#timer);
		const turn = ++this.#turn;
		try {
			const { query } = this;
			const hits = await this.#backend.searchConversations(query);
			if (turn !== this.#turn) return;
			this.hits = hits;
			this.#foundQuery = query;
			this.failure = null;
		} catch (thrown) {
			if (turn !== this.#turn) return;
			this.hits = null;
			this.failure = asFailure(thrown);
		}
		this.chosen = 0;
	}

	/** Moves the choice, from the last hit to the first and back. */
	step(by: 1 | -1) {
		const count = this.hits?.length ?? 0;
		if (count > 0) this.chosen = (this.chosen + by + count) % count;
	}
}
