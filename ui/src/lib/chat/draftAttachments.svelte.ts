import { asFailure, type Backend, type CommandFailure } from '../ipc/backend';
import type { AttachmentView } from '../ipc/wire';

/** A file that could not be attached. */
export interface Refusal {
	key: number;
	name: string;
	failure: CommandFailure;
}

/** What is attached to a text that was not sent yet. */
export class DraftAttachments {
	all = $state.raw<readonly AttachmentView[]>([]);
	/** Names of files that are being read. */
	reading = $state.raw<readonly string[]>([]);
	refusals = $state.raw<readonly Refusal[]>([]);
	#backend: Backend;
	#conversationId: string;
	#nextKey = 0;

	constructor(backend: Backend, conversationId: string) {
		this.#backend = backend;
		this.#conversationId = conversationId;
	}

	/** Tokens of all that is attached, as far as they are known. */
	get tokens(): number {
		return this.all.reduce((sum, { tokens }) => sum + (tokens ?? 0), 0);
	}

	/** Asks for files and attaches them. */
	async pick(): Promise<void> {
		const paths = await this.#try('', () => this.#backend.pickAttachments());
		if (paths) await this.addFiles(paths);
	}

	/** Attaches files, one after the other, so that they stand in the order in which they were given. */
	async addFiles(paths: readonly string[]): Promise<void> {
		for (const path of paths) {
			const name = path.split(/[/\\]/).at(-1) ?? path;
			await this.#add(name, () => this.#backend.attachFile(this.#conversationId, path));
		}
	}

	/** Attaches a text. Returns whether it worked. */
	async addText(name: string, text: string): Promise<boolean> {
		return this.#add(name, () => this.#backend.attachText(this.#conversationId, name, text));
	}

	async remove(attachmentId: string): Promise<void> {
		const removed = this.all.find(({ id }) => id === attachmentId);
		if (!removed) return;
		const done = await this.#try(removed.name, async () => {
			await this.#backend.removeAttachment(attachmentId);
			return true;
		});
		if (done) this.all = this.all.filter(({ id }) => id !== attachmentId);
	}

	/** The text of an attachment, sent or not. */
	read(attachmentId: string): Promise<string> {
		return this.#backend.readAttachment(attachmentId);
	}

	dismiss(key: number) {
		this.refusals = this.refusals.filter((refusal) => refusal.key !== key);
	}

	async #add(name: string, attach: () => Promise<AttachmentView>): Promise<boolean> {
		this.reading = [...this.reading, name];
		const added = await this.#try(name, attach);
		this.reading = this.reading.filter((_, at) => at !== this.reading.indexOf(name));
		if (added) this.all = [...this.all, added];
		return added !== null;
	}

	async #try<T>(name: string, work: () => Promise<T>): Promise<T | null> {
		try {
			return await work();
		} catch (thrown) {
			this.refusals = [...this.refusals, { key: this.#nextKey++, name, failure: asFailure(thrown) }];
			return null;
		}
	}
}
