import { Lexer, type Token, type TokensList } from 'marked';

/** Deeper quotes and lists stand as plain text: every level is read once more by each level above it. */
const maxDepth = 20;

/** Signs that may begin or end something in a line of text. What follows each is looked at for its partner. */
const signs = /[*_[\]`~$<\\@]/g;

/** A text with more signs than this stands as it is: looking for all partners takes the square of their number. */
const maxSigns = 1200;

/** A text that is longer than this, in characters, stands as it is. */
const maxInlineLength = 40_000;

/** Whether a text would take so long that the window stops. */
export function isTooTangled(text: string): boolean {
	if (text.length > maxInlineLength) return true;
	if (text.length <= maxSigns) return false;
	signs.lastIndex = 0;
	for (let count = 0; signs.test(text); count += 1) if (count >= maxSigns) return true;
	return false;
}

/** Reads Markdown, and leaves as plain text what nobody writes and what would take very long. */
export class BoundedLexer extends Lexer {
	#depth = 0;

	// The list of the whole text comes back as it was given, with its links.
	override blockTokens(src: string, tokens?: Token[], lastParagraphClipped?: boolean): Token[];
	override blockTokens(src: string, tokens?: TokensList, lastParagraphClipped?: boolean): TokensList;
	override blockTokens(src: string, tokens: Token[] = [], lastParagraphClipped = false): Token[] {
		if (this.#depth > maxDepth) {
			if (src.trim() !== '') tokens.push(plain(src));
			return tokens;
		}
		this.#depth += 1;
		try {
			return super.blockTokens(src, tokens, lastParagraphClipped);
		} finally {
			this.#depth -= 1;
		}
	}

	override inlineTokens(src: string, tokens: Token[] = []): Token[] {
		if (!isTooTangled(src)) return super.inlineTokens(src, tokens);
		tokens.push(plain(src));
		return tokens;
	}
}

function plain(raw: string): Token {
	return { type: 'text', raw, text: raw, escaped: false };
}
