import type { MarkedExtension, Tokens } from 'marked';

/** Formulas longer than this are shown as they were typed. */
const maxFormulaLength = 3000;

/** Stand round a formula that is still being typed; from the private use area, so that no text has them by chance. */
export const openMathMarks = { start: '\uE000', end: '\uE001', newline: '\uE002' } as const;

export interface Formula {
	/** With its delimiters. */
	raw: string;
	tex: string;
	isDisplay: boolean;
}

interface Delimiters {
	open: string;
	close: string;
	isDisplay: boolean;
}

const delimiters: readonly Delimiters[] = [
	{ open: '$$', close: '$$', isDisplay: true },
	{ open: '\\[', close: '\\]', isDisplay: true },
	{ open: '\\(', close: '\\)', isDisplay: false },
];

/** The formula at the very start of `src`, if one stands there. `before` is the character in front of it. */
export function formulaAt(src: string, before = ''): Formula | null {
	for (const { open, close, isDisplay } of delimiters) {
		if (!src.startsWith(open)) continue;
		const end = src.indexOf(close, open.length);
		if (end < 0 || end > maxFormulaLength) return null;
		const tex = src.slice(open.length, end);
		// TeX allows no blank line in a formula: what looks like one is something else.
		if (tex.trim() === '' || /\n[ \t]*\n/.test(tex)) return null;
		return { raw: src.slice(0, end + close.length), tex, isDisplay };
	}
	return src.startsWith('$') && !/[\w$\\]/.test(before) ? dollarFormulaAt(src) : null;
}

/**
 * A formula between single dollar signs. Prices stay prices: no space stands inside either sign, no letter or digit
 * behind the second, and what starts as an amount in a sentence is one.
 */
function dollarFormulaAt(src: string): Formula | null {
	const found = /^\$(?![\s$])((?:\\[^\n]|[^\\$\n])+?)(?<![\s\\])\$(?![\w$])/.exec(
		src.slice(0, maxFormulaLength),
	);
	const tex = found?.[1];
	if (!found || tex === undefined || isAmount(tex)) return null;
	return { raw: found[0], tex, isDisplay: false };
}

/** "5 and US", "20 a month or": digits, then words, and nothing that only a formula has. */
function isAmount(tex: string): boolean {
	return /^\d[\d.,]*\s*[a-z]?\s/i.test(tex) && !/[\\^_=+<>*/{}]/.test(tex);
}

/** Where the next formula could start, and the character in front of it. */
function startOf(src: string): number | undefined {
	for (const match of src.matchAll(/\$\$?|\\[[(]|\uE000/g)) {
		const before = src[match.index - 1] ?? '';
		if (before === '\\') continue;
		if (match[0] === openMathMarks.start || formulaAt(src.slice(match.index), before)) return match.index;
	}
	return undefined;
}

/**
 * Where a formula that has no end yet starts in `block`, the last block of a growing text; `null` if there is none.
 * A single dollar sign counts only once something stands behind it that is no price.
 */
export function openFormulaAt(block: string): number | null {
	// Code is no place for formulas: it keeps its length and loses its signs.
	const masked = block.replace(/(`+)[\s\S]*?\1/g, (span) => 'x'.repeat(span.length));
	for (let at = 0; at < masked.length; at += 1) {
		const src = masked.slice(at);
		if (!/^(?:\$|\\[[(\\$])/.test(src)) continue;
		if (/^\\[\\$]/.test(src)) {
			at += 1;
			continue;
		}
		const formula = formulaAt(src, masked[at - 1] ?? '');
		if (formula) at += formula.raw.length - 1;
		else if (isOpen(src)) return at;
	}
	return null;
}

function isOpen(src: string): boolean {
	if (src.length > maxFormulaLength || /\n[ \t]*\n/.test(src)) return false;
	for (const { open, close } of delimiters) {
		if (src.startsWith(open)) return src.indexOf(close, open.length) < 0;
	}
	return /^\$(?![\s$])[^$\n]*$/.test(src) && /[\\^_=]/.test(src);
}

function escapeHtml(text: string): string {
	return text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');
}

/** A place for a formula: its source, until `decorate` draws it. */
function placeOf({ raw, tex, isDisplay }: Formula): string {
	const kind = isDisplay ? 'display' : 'inline';
	return `<span class="md-math md-math-${kind}" data-math="${escapeHtml(tex.trim())}">${escapeHtml(raw)}</span>`;
}

/** A formula with lines of its own at the very start of `src`. */
function blockFormulaAt(src: string) {
	const formula = formulaAt(src);
	if (!formula?.isDisplay) return undefined;
	// Words behind it on the same line: then it stands in a paragraph.
	const rest = /^[ \t]*(?:\n+|$)/.exec(src.slice(formula.raw.length));
	return rest ? { type: 'mathBlock', ...formula, raw: formula.raw + rest[0] } : undefined;
}

/** Where the next one starts, if its paragraph has one: a paragraph that is cut in vain is read again for each cut. */
function startOfBlock(src: string): number | undefined {
	const blank = src.search(/\n[ \t]*\n/);
	for (const { index } of src.slice(0, blank < 0 ? undefined : blank).matchAll(/\n(?:\$\$|\\\[)/g)) {
		if (blockFormulaAt(src.slice(index + 1))) return index;
	}
	return undefined;
}

/** Formulas for Marked. */
export const mathExtension: MarkedExtension = {
	extensions: [
		{
			name: 'mathBlock',
			level: 'block',
			start: startOfBlock,
			tokenizer: blockFormulaAt,
			renderer: (token) => `<div class="md-formula" tabindex="0">${placeOf(shownOf(token))}</div>\n`,
		},
		{
			name: 'math',
			level: 'inline',
			start: startOf,
			tokenizer(src) {
				const open = /^\uE000([^\uE001]*)\uE001/.exec(src);
				if (open) return { type: 'math', raw: open[0], tex: '', isDisplay: false, source: open[1] };
				const formula = formulaAt(src);
				return formula ? { type: 'math', ...formula } : undefined;
			},
			renderer: (token) => {
				const source: unknown = token['source'];
				if (typeof source === 'string') {
					const lines = escapeHtml(source.replaceAll(openMathMarks.newline, '\n'));
					return `<span class="md-math-open">${lines}</span>`;
				}
				return placeOf(shownOf(token));
			},
		},
	],
};

function shownOf(token: Tokens.Generic): Formula {
	return { raw: token.raw.trim(), tex: String(token['tex']), isDisplay: token['isDisplay'] === true };
}
