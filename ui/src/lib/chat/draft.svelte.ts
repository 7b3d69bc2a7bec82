const saveAfterMs = 400;

/** Text typed and not sent, of one conversation; on disk shortly after the last key. */
export class Draft {
	text = $state('');
	#saved: string;
	#save: (text: string) => Promise<void>;
	#onFailure: (thrown: unknown) => void;
	#timer: ReturnType<typeof setTimeout> | null = null;

	constructor(stored: string, save: (text: string) => Promise<void>, onFailure: (thrown: unknown) => void) {
		this.#onFailure = onFailure;
		this.text = stored;
		this.#saved = stored;
		this.#save = save;
	}

	write(text: string) {
		this.text = text;
		if (this.#timer !== null) clearTimeout(this.#timer);
		this.#timer = setTimeout(() => void this.flush().catch(this.#onFailure), saveAfterMs);
	}

	/** Saves now if the stored text is behind. Rejects when the save does; the text stays. */
	async flush(): Promise<void> {
		if (this.#timer !== null) clearTimeout(this.#timer);
		this.#timer = null;
		const text = this.text;
		if (text === this.#saved) return;
		const before = this.#saved;
		this.#saved = text;
		try {
			await this.#save(text);
		} catch (thrown) {
			this.#saved = before;
			throw thrown;
		}
	}
}
