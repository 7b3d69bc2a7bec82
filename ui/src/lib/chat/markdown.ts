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

/** A block that is longer has no colours: finding them would stop the window. */
const highlightMaxLength = 50_000;

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

function codeHtml(code: string, info: string, maxLength: number): string {
	const language = info.trim().split(/\s+/)[0]?.toLowerCase() ?? '';
	const coloured = code.length <= maxLength ? highlight(code, language) : null;
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

const isDrawn = (token: Token) => token.type !== 'space' && token.type !== 'def';

/** Blocks of a whole message. */
export function markdownBlocks(text: string): Block[] {
	const tokens = finished.lexer(normalise(text));
	return tokens.filter(isDrawn).map((token, key) => ({ key, html: render(finished, [token], tokens.links) }));
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
		const tokens = finished.lexer(source);
		if (Object.keys(tokens.links).length > 0) this.#rendered.clear();
		for (const token of tokens.filter(isDrawn)) {
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
		const tokens = finished.lexer(tail);
		if (tokens.map((token) => token.raw).join('') !== tail) return;
		const drawn = tokens.filter(isDrawn);
		const firstOpen = drawn[drawn.length - 2];
		for (const token of tokens) {
			if (token === firstOpen || firstOpen === undefined) break;
			this.#finishedText += token.raw;
			if (isDrawn(token)) this.#add(token, tokens.links, this.#tail.get(token.raw));
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
