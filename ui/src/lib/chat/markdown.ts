import DOMPurify from 'dompurify';
import { Marked, type MarkedExtension, type Token, type Tokens, type TokensList } from 'marked';
import { BoundedLexer } from './boundedLexer';
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

/** A block that is longer has no colours: finding them would stop the window. */
const highlightMaxLength = 20_000;

/** Code with a longer line has no colours either: no person wrote it, and it can hold some languages up for minutes. */
const highlightMaxLine = 2000;

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

function hasLongLine(code: string): boolean {
	for (let from = 0; from < code.length;) {
		const end = code.indexOf('\n', from);
		if ((end < 0 ? code.length : end) - from > highlightMaxLine) return true;
		if (end < 0) return false;
		from = end + 1;
	}
	return false;
}

function codeHtml(code: string, info: string, maxLength: number): string {
	const language = info.trim().split(/\s+/)[0]?.toLowerCase() ?? '';
	const coloured = code.length <= maxLength && !hasLongLine(code) ? highlight(code, language) : null;
	const label = escapeHtml(language === '' ? 'text' : language);
	return (
		`<div class="code"><div class="code-head"><span>${label}</span>` +
		`<button type="button" class="code-button" data-wrap-code></button>` +
		`<button type="button" class="code-button" data-copy-code></button></div>` +
		`<pre tabindex="0" role="region" data-language="${label}"><code>${coloured ?? escapeHtml(code)}</code></pre></div>\n`
	);
}

/** Blocks that still grow are drawn with a lower limit on highlighting than finished ones. */
const growing = markedWith(highlightWhileGrowingMaxLength);
const finished = markedWith(highlightMaxLength);

function markedWith(maxLength: number): Marked {
	const renderer = rendererWith(maxLength);
	return new Marked({ gfm: true, breaks: true, renderer }, mathExtension);
}

function rendererWith(maxLength: number): MarkedExtension['renderer'] {
	return {
		code({ text, lang }) {
			return codeHtml(text, lang ?? '', maxLength);
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

/** Reads Markdown. What cannot be read in good time, or at all, stands as it is. */
function lex(marked: Marked, source: string): TokensList {
	try {
		return new BoundedLexer(marked.defaults).lex(source);
	} catch (thrown) {
		// A stack that is too deep: no text of a person has that, and the text is worth more than its form.
		if (!(thrown instanceof RangeError)) throw thrown;
		const text: Tokens.Text = { type: 'text', raw: source, text: source, escaped: false };
		const paragraph: Tokens.Paragraph = { type: 'paragraph', raw: source, text: source, tokens: [text] };
		return Object.assign([paragraph], { links: {} });
	}
}

/** Items or rows of one block: more make several, so that no block takes long by itself. */
const maxParts = 150;

/** Cells of one table; what has more stands as it is. */
const maxCells = 6000;

/** What is drawn of a token: nothing, one block, or several of a long list or table. */
function drawnParts(token: Token): Token[] {
	if (token.type === 'space' || token.type === 'def') return [];
	if (token.type === 'list') return listParts(token as Tokens.List);
	if (token.type === 'table') return tableParts(token as Tokens.Table);
	return [token];
}

function listParts(list: Tokens.List): Tokens.List[] {
	if (list.items.length <= maxParts) return [list];
	return slices(list.items).map((items, i) => ({
		...list,
		items,
		start: list.start === '' ? '' : list.start + i * maxParts,
		raw: items.map((item) => item.raw).join(''),
	}));
}

function tableParts(table: Tokens.Table): Token[] {
	if (table.header.length * Math.min(table.rows.length + 1, maxParts) > maxCells) {
		const text: Tokens.Text = { type: 'text', raw: table.raw, text: table.raw, escaped: false };
		return [{ type: 'paragraph', raw: table.raw, text: table.raw, tokens: [text] }];
	}
	if (table.rows.length <= maxParts) return [table];
	return slices(table.rows).map((rows) => ({
		...table,
		rows,
		raw: [table.header, ...rows].map(rowText).join('\n'),
	}));
}

function rowText(row: Tokens.TableCell[]): string {
	return row.map(({ text, align }) => `${align ?? ''}|${text}`).join('|');
}

function slices<T>(all: readonly T[]): T[][] {
	const count = Math.ceil(all.length / maxParts);
	return Array.from({ length: count }, (_, i) => all.slice(i * maxParts, (i + 1) * maxParts));
}

/** Blocks of a whole message. */
export function markdownBlocks(text: string): Block[] {
	const tokens = lex(finished, normalise(text));
	return tokens
		.flatMap(drawnParts)
		.map((token, key) => ({ key, html: render(finished, [token], tokens.links) }));
}

function normalise(text: string): string {
	return text.includes('\r') ? text.replace(/\r\n?/g, '\n') : text;
}

/** A block that is not rendered yet is shown as the model wrote it. */
function plainHtml(raw: string): string {
	return `<p class="md-plain">${escapeHtml(raw.trim())}</p>`;
}

/** A growing tail that takes long to draw may take this part of the time: one in so many milliseconds. */
const restFactor = 4;

/** A drawing that was quicker needs no rest, in milliseconds. */
const quickMs = 4;

/**
 * Blocks of a message, drawn over several frames if one is too short.
 *
 * Of a growing message finished blocks are parsed once and returned as the same objects; only the tail is parsed again.
 */
export class MarkdownStream {
	#finished: Block[] = [];
	#finishedText = '';
	#isWhole = false;
	#tail = new Map<string, string>();
	/** HTML of finished blocks by their source. It holds while no reference link is defined anywhere. */
	#rendered = new Map<string, string>();
	/** Blocks that stand as plain text, or as they were while they grew; the last is drawn first. */
	#waiting: { at: number; token: Token; links: TokensList['links'] }[] = [];
	#latest: { text: string; growth: Growth; blocks: Block[] } | null = null;
	#isLate = false;
	#restUntilMs = 0;

	/** Whether `update` has more to draw of the same text. */
	get isBehind(): boolean {
		return this.#isLate || this.#waiting.length > 0;
	}

	/** Draws for about `budgetMs`; with less than it takes, what is left is drawn by the next calls. */
	update(text: string, growth: Growth, budgetMs = Infinity): Block[] {
		const latest = this.#latest;
		const isSame = latest !== null && latest.text === text && latest.growth === growth;
		if (isSame && !this.isBehind) return latest.blocks;
		const startMs = performance.now();
		const isBounded = budgetMs !== Infinity;
		if (latest && growth === 'growing' && isBounded && startMs < this.#restUntilMs) {
			this.#isLate = true;
			return latest.blocks;
		}
		const tail = isSame && growth === 'finished' ? [] : this.#parse(text, growth);
		this.#render(startMs + budgetMs);
		const blocks = [...this.#finished, ...tail];
		this.#latest = { text, growth, blocks };
		this.#isLate = false;
		const tookMs = performance.now() - startMs;
		this.#restUntilMs = tookMs > quickMs ? startMs + tookMs * restFactor : 0;
		return blocks;
	}

	/** Parses what is new; returns the blocks that still grow. */
	#parse(text: string, growth: Growth): Block[] {
		const source = normalise(text);
		if (growth === 'finished') {
			this.#whole(source);
			return [];
		}
		if (this.#isWhole || !source.startsWith(this.#finishedText)) this.#reset();
		this.#finish(source);
		return this.#drawTail(source.slice(this.#finishedText.length));
	}

	/** Parses everything once more: a reference link may be defined after its use. Unchanged blocks stay the same objects. */
	#whole(source: string) {
		const known = this.#finished;
		const shown = this.#latest?.blocks ?? [];
		this.#reset();
		this.#isWhole = true;
		const tokens = lex(finished, source);
		if (Object.keys(tokens.links).length > 0) this.#rendered.clear();
		for (const token of tokens.flatMap(drawnParts)) {
			const at = this.#finished.length;
			this.#add(token, tokens.links, shown[at]?.html);
			const block = this.#finished[at];
			const before = known[at];
			if (before && block?.html === before.html) this.#finished[at] = before;
		}
	}

	#reset() {
		this.#finished = [];
		this.#finishedText = '';
		this.#isWhole = false;
		this.#waiting = [];
		this.#tail.clear();
	}

	/** Moves blocks out of the tail. The last two stay: what comes next can still join them. */
	#finish(source: string) {
		const tail = source.slice(this.#finishedText.length);
		const tokens = lex(finished, tail);
		if (tokens.map((token) => token.raw).join('') !== tail) return;
		const drawn = tokens.filter((token) => drawnParts(token).length > 0);
		const firstOpen = drawn[drawn.length - 2];
		for (const token of tokens) {
			if (token === firstOpen || firstOpen === undefined) break;
			this.#finishedText += token.raw;
			for (const part of drawnParts(token)) this.#add(part, tokens.links, this.#tail.get(part.raw));
		}
	}

	/** Adds a finished block; `shown` is how it was drawn last, if it was. */
	#add(token: Token, links: TokensList['links'], shown: string | undefined) {
		const at = this.#finished.length;
		const rendered = this.#rendered.get(token.raw);
		this.#finished.push({ key: at, html: rendered ?? shown ?? plainHtml(token.raw) });
		if (rendered === undefined) this.#waiting.push({ at, token, links });
	}

	/** Renders waiting blocks, from the end upwards, until it is `untilMs`; at least one. */
	#render(untilMs: number) {
		for (let next = this.#waiting.pop(); next !== undefined; next = this.#waiting.pop()) {
			const { at, token, links } = next;
			const html = render(finished, [token], links);
			if (Object.keys(links).length === 0) this.#rendered.set(token.raw, html);
			if (this.#finished[at]?.html !== html) this.#finished[at] = { key: at, html };
			if (performance.now() >= untilMs) break;
		}
	}

	#drawTail(tail: string): Block[] {
		const tokens = lex(growing, closeHalfTyped(tail));
		const drawn = new Map<string, string>();
		const blocks = tokens.flatMap(drawnParts).map((token, i) => {
			const html = this.#tail.get(token.raw) ?? render(growing, [token], tokens.links);
			drawn.set(token.raw, html);
			return { key: this.#finished.length + i, html };
		});
		this.#tail = drawn;
		return blocks;
	}
}
