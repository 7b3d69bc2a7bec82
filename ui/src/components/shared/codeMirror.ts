import { closeBrackets, closeBracketsKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { json } from '@codemirror/lang-json';
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { lintGutter, setDiagnostics } from '@codemirror/lint';
import { EditorState } from '@codemirror/state';
import {
	EditorView,
	highlightActiveLine,
	keymap,
	lineNumbers,
	placeholder,
	type KeyBinding,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';

/** A part of the text that is marked, in characters from the start. */
export interface Mark {
	from: number;
	to: number;
	severity: 'error' | 'warning';
	message: string;
}

export interface EditorOptions {
	text: string;
	/** Whether brackets and words are those of JSON. */
	isJson: boolean;
	placeholder: string;
	/** Attributes of the field that takes the text: its name, its description, what tests find it by. */
	attributes: Record<string, string>;
	onwrite: (text: string) => void;
}

export interface Editor {
	/** Replaces the text, unless it is there already. */
	write(text: string): void;
	mark(marks: readonly Mark[]): void;
	describe(attributes: Record<string, string>): void;
	/** Puts the caret at a place, in sight, and the focus with it. */
	goTo(offset: number): void;
	destroy(): void;
}

/** The window has these keys for itself. */
const windowKeys = /^(Mod|Ctrl|Cmd)-(\/|k|Enter|Alt-\\)$/;
const isOurs = ({ key, mac }: KeyBinding) => !windowKeys.test(key ?? '') && !windowKeys.test(mac ?? '');

const look = EditorView.theme({
	'&': { fontSize: 'var(--text-xs)', color: 'var(--ink)', backgroundColor: 'transparent' },
	'&.cm-focused': { outline: 'none' },
	'.cm-scroller': {
		fontFamily: 'var(--font-mono)',
		lineHeight: '1.55',
		minHeight: 'calc(132px * var(--text-scale))',
		maxHeight: 'calc(340px * var(--text-scale))',
		overflow: 'auto',
	},
	'.cm-content': { caretColor: 'var(--ink)', padding: '6px 0' },
	'.cm-gutters': { backgroundColor: 'transparent', color: 'var(--ink-3)', border: '0' },
	'.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--sunken)' },
	'.cm-placeholder': { color: 'var(--ink-3)' },
	'&.cm-focused .cm-matchingBracket': {
		backgroundColor: 'var(--accent-soft)',
		outline: '1px solid var(--accent)',
	},
	'.cm-lintRange-error': {
		backgroundImage: 'none',
		textDecoration: 'underline wavy var(--bad)',
		textUnderlineOffset: '3px',
	},
	'.cm-lintRange-warning': {
		backgroundImage: 'none',
		textDecoration: 'underline dotted 2px var(--per-row)',
		textUnderlineOffset: '3px',
	},
	'.cm-lint-marker-error, .cm-lint-marker-warning': {
		content: '""',
		width: '8px',
		height: '8px',
		margin: '4px 0 0 2px',
		borderRadius: '50%',
		backgroundColor: 'var(--bad)',
	},
	'.cm-lint-marker-warning': { borderRadius: '2px', backgroundColor: 'var(--per-row)' },
	'.cm-tooltip': {
		maxWidth: '320px',
		border: '1px solid var(--line)',
		borderRadius: 'var(--radius-s)',
		backgroundColor: 'var(--raised)',
		color: 'var(--ink)',
		boxShadow: 'var(--shadow)',
		fontFamily: 'var(--font)',
	},
	'.cm-diagnostic': { padding: '5px 10px' },
	'.cm-diagnostic-error': { borderLeftColor: 'var(--bad)' },
	'.cm-diagnostic-warning': { borderLeftColor: 'var(--per-row)' },
});

const colours = HighlightStyle.define([
	{ tag: tags.propertyName, color: 'var(--code-name)' },
	{ tag: tags.string, color: 'var(--code-string)' },
	{ tag: tags.number, color: 'var(--code-number)' },
	{ tag: [tags.bool, tags.null], color: 'var(--code-keyword)' },
]);

/**
 * Puts an editor into `host`. It lives in a shadow root: there its styles are adopted sheets, which the content
 * security policy allows, where in a document they would be style elements, which it does not.
 */
export function openEditor(host: HTMLElement, options: EditorOptions): Editor {
	const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
	let attributes = options.attributes;
	const view = new EditorView({
		parent: root,
		root,
		state: EditorState.create({
			doc: options.text,
			extensions: [
				lineNumbers(),
				lintGutter(),
				history(),
				indentOnInput(),
				bracketMatching(),
				closeBrackets(),
				highlightActiveLine(),
				EditorView.lineWrapping,
				EditorState.tabSize.of(2),
				placeholder(options.placeholder),
				keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap].filter(isOurs)),
				syntaxHighlighting(colours),
				look,
				...(options.isJson ? [json()] : []),
				EditorView.contentAttributes.of(() => attributes),
				EditorView.updateListener.of((update) => {
					if (update.docChanged) options.onwrite(update.state.doc.toString());
				}),
			],
		}),
	});
	const within = (offset: number) => Math.min(Math.max(0, offset), view.state.doc.length);
	return {
		write(text) {
			if (text === view.state.doc.toString()) return;
			view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
		},
		mark(marks) {
			const placed = marks.map((each) => ({ ...each, from: within(each.from), to: within(each.to) }));
			view.dispatch(setDiagnostics(view.state, placed));
		},
		describe(next) {
			attributes = next;
			view.dispatch({});
		},
		goTo(offset) {
			view.dispatch({ selection: { anchor: within(offset) }, scrollIntoView: true });
			view.focus();
		},
		destroy: () => view.destroy(),
	};
}
