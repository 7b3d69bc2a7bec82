import type { Backend } from '../ipc/backend';
import type { ConversationImportReport, ExportFormat, ExportReport } from '../ipc/wire';

/** What files are called that hold a conversation. */
const extensions: Record<ExportFormat, string> = { json: 'json', markdown: 'md' };

const longestName = 60;

/** A name for a file that every system takes, made from a title. */
export function fileNameOf(title: string, format: ExportFormat): string {
	const plain = [...title]
		// eslint-disable-next-line no-control-regex -- no file system takes them
		.map((sign) => (/[\u0000-\u001f<>:"/\\|?*]/.test(sign) ? ' ' : sign))
		.join('')
		.replace(/\s+/g, ' ')
		.replace(/^[ .]+|[ .]+$/g, '');
	const short = [...plain].slice(0, longestName).join('').trim();
	return `${short || 'conversation'}.${extensions[format]}`;
}

/** Conversations that leave the app as files, and files that come in. Calls reject with why they did not work. */
export class Transfer {
	/** What the latest import brought, until it is closed. */
	report = $state.raw<ConversationImportReport | null>(null);
	isImporting = $state(false);
	#backend: Backend;

	constructor(backend: Backend) {
		this.#backend = backend;
	}

	/** Asks where to, and writes one conversation there. `null` if no place was chosen. */
	async exportOne(id: string, title: string, format: ExportFormat): Promise<ExportReport | null> {
		const path = await this.#backend.pickExportFile(fileNameOf(title, format));
		return path === null ? null : this.#backend.exportConversation(id, format, path);
	}

	/** Asks where to, and writes all conversations there. `null` if no place was chosen. */
	async exportAll(format: ExportFormat): Promise<ExportReport | null> {
		const path =
			format === 'json'
				? await this.#backend.pickExportFile('braid-conversations.json')
				: await this.#backend.pickExportFolder();
		return path === null ? null : this.#backend.exportLibrary(format, path);
	}

	/** Asks for files and imports them. Whether any were chosen. */
	async chooseAndImport(): Promise<boolean> {
		const paths = await this.#backend.pickImportFiles();
		if (paths.length > 0) await this.importFiles(paths);
		return paths.length > 0;
	}

	async importFiles(paths: string[]): Promise<void> {
		if (this.isImporting) return;
		this.isImporting = true;
		try {
			this.report = await this.#backend.importConversations(paths);
		} finally {
			this.isImporting = false;
		}
	}
}
