import { CommandFailure, type Backend } from '../backend';
import type { AttachmentKind, AttachmentView } from '../wire';
import type { ScriptedParts } from './parts';

type Calls = Pick<
	Backend,
	| 'pickAttachments'
	| 'attachFile'
	| 'attachText'
	| 'removeAttachment'
	| 'readAttachment'
	| 'countTokens'
	| 'watchFileDrops'
>;

/** Characters of a scripted token. */
const charsPerToken = 4;

/** Files of the scripted computer, by name. */
const files: Record<string, { text: string; pages: number | null }> = {
	'notes.md': { text: '# Notes\n\nThe meeting moved to Tuesday. Bring the *second* draft.\n', pages: null },
	'main.rs': { text: 'fn main() {\n    println!("tide");\n}\n', pages: null },
	'paper.pdf': { text: 'On the drift of sandbanks. '.repeat(120), pages: 7 },
	'thesis.pdf': { text: 'A very long chapter about sandbanks. '.repeat(400), pages: 96 },
};

const kinds: Record<string, AttachmentKind> = { md: 'markdown', pdf: 'pdf', rs: 'code', txt: 'text' };

export function attachmentCalls({ call, history, engine, conversation }: ScriptedParts): Calls {
	const tokensOf = (text: string) =>
		engine.phase.kind === 'ready' ? Math.ceil(text.length / charsPerToken) : null;

	function attach(
		conversationId: string,
		view: Omit<AttachmentView, 'id' | 'chars' | 'tokens'>,
		text: string,
	) {
		const stored = conversation(conversationId);
		const id = `a${history.nextId++}`;
		const attachment = { ...view, id, chars: text.length, tokens: tokensOf(text) };
		stored.draftAttachments = [...stored.draftAttachments, attachment];
		history.attached[id] = text;
		return attachment;
	}

	function attachFile(conversationId: string, path: string) {
		const name = path.split('/').at(-1) ?? path;
		const file = files[name];
		if (!file) throw new CommandFailure('attachmentRefused', `${name}: it is not a text that can be read`);
		const kind = kinds[name.split('.').at(-1) ?? ''] ?? 'text';
		return attach(conversationId, { name, kind, pages: file.pages }, file.text);
	}

	return {
		pickAttachments: () => call(() => ['/home/me/notes.md', '/home/me/paper.pdf']),
		attachFile: (id, path) => call(() => attachFile(id, path)),
		attachText: (id, name, text) => call(() => attach(id, { name, kind: 'text', pages: null }, text)),
		removeAttachment: (attachmentId) =>
			call(() => {
				for (const stored of history.conversations) {
					stored.draftAttachments = stored.draftAttachments.filter(({ id }) => id !== attachmentId);
				}
			}),
		readAttachment: (attachmentId) =>
			call(() => {
				const text = history.attached[attachmentId];
				if (text === undefined) throw new CommandFailure('attachmentRefused', 'it is gone');
				return text;
			}),
		countTokens: (text) => call(() => tokensOf(text)),
		// Tests drop files by an event of their own: a page never learns the path of a file.
		watchFileDrops: (onDrop) => {
			const listen = (event: Event) => onDrop((event as CustomEvent).detail);
			window.addEventListener('braid-scripted-drop', listen);
			return () => window.removeEventListener('braid-scripted-drop', listen);
		},
	};
}
