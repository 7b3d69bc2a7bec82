import DOMPurify from 'dompurify';
import { Marked, type MarkedExtension, type Token, type Tokens, type TokensList } from 'marked';
import { closeHalfTyped } from './closeHalfTyped';
import { highlight } from './highlight';
import { mathExtension } from './mathSyntax';

/** One top-level block of a message. `key` is its place, so a finished block keeps its element. */
export interface Block {
	key: number;
	/** Sanitised. */
	html: string;
}

/** Whether more text of a message may come. */
export type Growth = 'growing' | 'finished';

/** Highlighting a growing block on every frame costs more than the colours are worth beyond this. */
const highlightWhileGrowingMaxLength = 6000;

function escapeHtml(text: string): string {
	const entities: Record<string, string> = {
		'&': '&amp;',
		'<': '&lt;',
		'>': '&gt;',
		'"': '&quot;',
		"'": '&#39;',
	};
	return text.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}

function codeHtml(code: string, info: string, highlightMaxLength: number): string {
	const language = info.trim().split(/\s+/)[0]?.toLowerCase() ?? '';
	const coloured = code.length <= highlightMaxLength ? highlight(code, language) : null;
	const label = escapeHtml(language === '' ? 'text' : language);
	return (
		`<div class="code"><div class="code-head"><span>${label}</span>` +
		`<button type="button" class="code-button" data-wrap-code></button>` +
		`<button type="button" class="code-button" data-copy-code></button></div>` +
		`<pre tabindex="0" role="region" data-language="${label}"><code>${coloured ?? escapeHtml(code)}</code></pre></div>\n`
	);
}

/** Blocks that still grow are drawn with a limit on highlighting, finished ones without. */
const growing = markedWith(highlightWhileGrowingMaxLength);
const finished = markedWith(Infinity);

function markedWith(highlightMaxLength: number): Marked {
	const renderer = rendererWith(highlightMaxLength);
	return new Marked({ gfm: true, breaks: true, renderer }, mathExtension);
}

function rendererWith(highlightMaxLength: number): MarkedExtension['renderer'] {
	return {
		code({ text, lang }) {
			return codeHtml(text, lang ?? '', highlightMaxLength);
		},
		// The reader sees the tags that the model wrote; they are never markup of the app.
		html({ text }) {
			return /^<br\s*\/?>$/i.test(text.trim()) ? '<br>' : escapeHtml(text);
		},
		heading({ tokens, depth }) {
			const level = Math.min(6, depth + 2);
			return `<h${level} class="md-h${depth}">${this.parser.parseInline(tokens)}</h${level}>\n`;
		},
		// No href: nothing in an answer can navigate. The address is shown on request.
		link({ href, tokens }) {
			const label = this.parser.parseInline(tokens);
			if (!/^(https?:|mailto:)/i.test(href)) return label;
			const url = escapeHtml(href);
			return `<a class="md-link" role="button" tabindex="0" data-url="${url}" title="${url}">${label}</a>`;
		},
		image({ href, text }) {
			const name = escapeHtml(text || href);
			return `<span class="md-image" title="${escapeHtml(href)}" data-image="${name}">${name}</span>`;
		},
		checkbox({ checked }) {
			return `<span class="md-task">${checked ? '☑' : '☐'}</span> `;
		},
		table(token) {
			const cells = (row: Tokens.TableCell[], tag: 'th' | 'td') =>
				row.map((cell) => {
					const align = cell.align ? ` class="align-${cell.align}"` : '';
					return `<${tag}${align}>${this.parser.parseInline(cell.tokens)}</${tag}>`;
				});
			const rows = token.rows.map((row) => `<tr>${cells(row, 'td').join('')}</tr>`).join('');
			return (
				`<div class="md-table"><div class="md-scroll" tabindex="0"><table>` +
				`<thead><tr>${cells(token.header, 'th').join('')}</tr></thead><tbody>${rows}</tbody></table></div>` +
				`<button type="button" class="code-button" data-copy-table></button></div>\n`
			);
		},
	};
}

const allowedTags =
	'p br hr h3 h4 h5 h6 ul ol li blockquote pre code span div strong em del a button table thead tbody tr th td';
const allowedAttributes =
	'class start role tabindex type title data-url data-math data-image data-language data-copy-code data-wrap-code data-copy-table';

function render(marked: Marked, tokens: Token[], links: TokensList['links']): string {
	const list = Object.assign([...tokens], { links }) as TokensList;
	return DOMPurify.sanitize(marked.parser(list), {
		ALLOWED_TAGS: allowedTags.split(' '),
		ALLOWED_ATTR: allowedAttributes.split(' '),
		ALLOW_DATA_ATTR: false,
		ALLOW_ARIA_ATTR: false,
	});
}

const isDrawn = (token: Token) => token.type !== 'space' && token.type !== 'def';

/** Blocks of a whole message. */
export function markdownBlocks(text: string): Block[] {
	const tokens = finished.lexer(normalise(text));
	return tokens.filter(isDrawn).map((token, key) => ({ key, html: render(finished, [token], tokens.links) }));
}

function normalise(text: string): string {
	return text.replace(/\r\n?/g, '\n');
}

/**
 * Blocks of a growing message: finished ones are parsed once and returned as the same objects; only the tail is
 * parsed again.
 */
export class MarkdownStream {
	#finished: Block[] = [];
	#finishedText = '';
	#tail = new Map<string, string>();
	#latest: { text: string; growth: Growth; blocks: Block[] } | null = null;

	update(text: string, growth: Growth): Block[] {
		const latest = this.#latest;
		if (latest && latest.text === text && latest.growth === growth) return latest.blocks;
		const blocks = this.#draw(text, growth);
		this.#latest = { text, growth, blocks };
		return blocks;
	}

	#draw(text: string, growth: Growth): Block[] {
		const source = normalise(text);
		if (growth === 'finished') return this.#whole(source);
		if (!source.startsWith(this.#finishedText)) this.#reset();
		this.#finish(source);
		return [...this.#finished, ...this.#drawTail(source.slice(this.#finishedText.length))];
	}

	/** Parses everything once more: a reference link may be defined after its use. Unchanged blocks stay the same objects. */
	#whole(source: string): Block[] {
		const known = this.#finished;
		this.#reset();
		return markdownBlocks(source).map((block, i) => (known[i]?.html === block.html ? known[i] : block));
	}

	#reset() {
		this.#finished = [];
		this.#finishedText = '';
		this.#tail.clear();
	}

	/** Moves blocks out of the tail. The last two stay: what comes next can still join them. */
	#finish(source: string) {
		const tail = source.slice(this.#finishedText.length);
		const tokens = finished.lexer(tail);
		if (tokens.map((token) => token.raw).join('') !== tail) return;
		const drawn = tokens.filter(isDrawn);
		const firstOpen = drawn[drawn.length - 2];
		for (const token of tokens) {
			if (token === firstOpen || firstOpen === undefined) break;
			this.#finishedText += token.raw;
			if (isDrawn(token)) {
				const html = render(finished, [token], tokens.links);
				this.#finished.push({ key: this.#finished.length, html });
			}
		}
	}

	#drawTail(tail: string): Block[] {
		const tokens = growing.lexer(closeHalfTyped(tail));
		const drawn = new Map<string, string>();
		const blocks = tokens.filter(isDrawn).map((token, i) => {
			const html = this.#tail.get(token.raw) ?? render(growing, [token], tokens.links);
			drawn.set(token.raw, html);
			return { key: this.#finished.length + i, html };
		});
		this.#tail = drawn;
		return blocks;
	}
}
