/** What one word of a query is worth, by where it was found. */
const worth = { start: 100, wordStart: 80, inside: 50, scattered: 20 } as const;

/**
 * How well `text` matches what was typed, larger is better; `null` if a word of it is missing.
 *
 * Every word must be found: at the start, at the start of a word, inside one, or as letters in their order.
 */
export function matchScore(query: string, text: string): number | null {
	const within = text.toLowerCase();
	let score = 0;
	for (const word of query.toLowerCase().split(/\s+/)) {
		const found = wordScore(word, within);
		if (found === null) return null;
		score += found;
	}
	// Among equals the shorter text is the likelier one.
	return score - Math.min(within.length, 99) / 100;
}

function wordScore(word: string, within: string): number | null {
	if (within.startsWith(word)) return worth.start;
	const at = within.indexOf(word);
	if (at < 0) return isScattered(word, within) ? worth.scattered : null;
	const startsWord = within.split(/[^\p{L}\p{N}]+/u).some((part) => part.startsWith(word));
	return startsWord ? worth.wordStart : worth.inside;
}

function isScattered(letters: string, within: string): boolean {
	let from = 0;
	for (const letter of letters) {
		const at = within.indexOf(letter, from);
		if (at < 0) return false;
		from = at + letter.length;
	}
	return true;
}
