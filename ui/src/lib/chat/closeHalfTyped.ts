import { isTooTangled } from './boundedLexer';
import { openFormulaAt, openMathMarks } from './mathSyntax';

/**
 * Completes Markdown that stops in mid-air, so that a streamed answer never shows raw markers for a moment.
 *
 * Only the end of `text` is touched, and only for drawing: the stored answer stays as the model wrote it.
 */
export function closeHalfTyped(text: string): string {
	const fence = openFence(text);
	if (fence !== null) return withoutPartialFence(text, fence);
	const shown = withoutBareMarker(text.replace(/(?<!\\)\\$/, ''));
	const paragraph = shown.slice(startOfParagraph(shown));
	const formula = isTooTangled(paragraph) ? null : openFormulaAt(paragraph);
	if (formula !== null) return withOpenFormula(shown, startOfParagraph(shown) + formula);
	const start = startOfLastBlock(shown);
	if (isTooTangled(shown.slice(start))) return text;
	const table = completeTable(shown.slice(start));
	return shown.slice(0, start) + (table ?? closeInline(shown.slice(start)));
}

/** A formula ends with its paragraph; the lines in it may look like anything. */
function startOfParagraph(text: string): number {
	const blank = [...text.matchAll(/\n[ \t]*\n/g)].at(-1);
	return blank ? blank.index + blank[0].length : 0;
}

/** Marks a formula without an end, and closes what stands before it. */
function withOpenFormula(text: string, at: number): string {
	const { start, end, newline } = openMathMarks;
	// On one line: nothing in it starts a list or a heading.
	const source = text.slice(at).replaceAll(end, '').replaceAll('\n', newline);
	// One sign stands for the formula meanwhile: emphasis round it is closed behind it.
	const closed = closeHalfTyped(text.slice(0, at) + end);
	return closed.replace(end, () => `${start}${source}${end}`);
}

/** The marker of the code fence that is still open at the end, or `null`. */
function openFence(text: string): string | null {
	let open: string | null = null;
	for (const line of text.split('\n')) {
		const marker = /^\s*(?:[-*+]\s+|\d+[.)]\s+|>\s?)*(`{3,}|~{3,})(.*)$/.exec(line);
		const run = marker?.[1];
		if (run === undefined) continue;
		if (open === null) open = run;
		else if (run[0] === open[0] && run.length >= open.length && marker?.[2]?.trim() === '') open = null;
	}
	return open;
}

function withoutPartialFence(text: string, fence: string): string {
	const lastLine = text.slice(text.lastIndexOf('\n') + 1);
	const isPartial = lastLine.length > 0 && fence.startsWith(lastLine.trim()) && lastLine.trim() !== fence;
	return isPartial && lastLine.trim() !== '' && text.includes('\n') ? text.slice(0, -lastLine.length) : text;
}

/** Drops a last line that is nothing but the start of a heading, list item, quote, rule or fence. */
function withoutBareMarker(text: string): string {
	const start = text.lastIndexOf('\n') + 1;
	const isBare = /^\s*(?:#{1,6}|[-*+_=~`]{1,}|\d{1,9}[.)]|>+)?\s*$/.test(text.slice(start));
	return isBare ? text.slice(0, start) : text;
}

/** Emphasis and code spans end with their paragraph, item, heading or quote: only that part can be open. */
function startOfLastBlock(text: string): number {
	const lines = text.split('\n');
	let start = 0;
	let at = 0;
	let isFirstOfTable = false;
	for (const line of lines) {
		const isTable = line.trimStart().startsWith('|');
		const isLast = at + line.length >= text.length;
		if (line.trim() === '' && !isLast) start = at + line.length + 1;
		else if (/^\s*(?:#{1,6}\s|[-*+]\s|\d{1,9}[.)]\s|>|`{3}|~{3})/.test(line)) start = at;
		else if (isTable && !isFirstOfTable) start = at;
		isFirstOfTable = isTable;
		at += line.length + 1;
	}
	return Math.min(start, text.length);
}

/** A table needs its delimiter row to be one; `null` when `block` does not start as a table. */
function completeTable(block: string): string | null {
	if (!block.trimStart().startsWith('|')) return null;
	const [header = '', delimiter = '', ...rows] = block.split('\n');
	if (rows.length > 0) return null;
	if (!/^[\s|:-]*$/.test(delimiter)) return null;
	if (!/^\s*\|.*\|\s*$/.test(header)) return '';
	const columns = header.trim().slice(1, -1).split('|').length;
	return `${header}\n|${' --- |'.repeat(columns)}`;
}

function closeInline(block: string): string {
	const code = openCodeSpan(block);
	if (code !== null) {
		const body = block.slice(0, block.length - trailingRun(block, '`'));
		// The run that opens it is the last thing typed: nothing to show yet.
		if (body.length <= code.at) return closeEmphasis(block.slice(0, code.at));
		return closeEmphasis(block.slice(0, code.at)) + body.slice(code.at) + '`'.repeat(code.ticks);
	}
	return closeEmphasis(closeLink(block));
}

function trailingRun(text: string, character: string): number {
	let length = 0;
	while (length < text.length && text[text.length - 1 - length] === character) length += 1;
	return length;
}

function openCodeSpan(block: string): { at: number; ticks: number } | null {
	const runs = [...block.matchAll(/`+/g)].filter((run) => block[run.index - 1] !== '\\');
	for (let i = 0; i < runs.length; i += 1) {
		const run = runs[i];
		if (!run) break;
		const end = runs.findIndex((other, j) => j > i && other[0].length === run[0].length);
		if (end === -1) return { at: run.index, ticks: run[0].length };
		i = end;
	}
	return null;
}

/** A link without its end is shown as its text, an image not at all. */
function closeLink(block: string): string {
	return block
		.replace(/!\[[^\]\n]*(?:\](?:\([^)\n]*)?)?$/, '')
		.replace(/\[([^[\]\n]*)\]\([^)\n]*$/, '$1')
		.replace(/!$/, '');
}

function closeEmphasis(block: string): string {
	const open: string[] = [];
	let text = block;
	// Code spans are closed here; what stands in them is not emphasis.
	const masked = block.replace(/(`+)[\s\S]*?\1/g, (span) => 'x'.repeat(span.length)).replace(/\\./g, 'xx');
	for (const match of masked.matchAll(/\*+|_+|~~/g)) {
		const run = match[0];
		const before = masked[match.index - 1] ?? ' ';
		const after = masked[match.index + run.length] ?? '';
		const isLast = after === '';
		const isWord = /\w/;
		if (run.startsWith('_') && isWord.test(before) && isWord.test(after)) continue;
		const canClose = !/\s/.test(before);
		const canOpen = !isLast && !/\s/.test(after);
		let left = run.length;
		while (canClose && left > 0 && open.length > 0) {
			const top = open[open.length - 1] ?? '';
			if (top[0] !== run[0] || top.length > left) break;
			open.pop();
			left -= top.length;
		}
		if (isLast && left > 0) {
			// Half of a closing marker, or an opening one with nothing behind it yet.
			if (canClose === false || open.some((marker) => marker[0] === run[0]) || left === run.length)
				text = text.slice(0, text.length - left);
			break;
		}
		if (canOpen && left > 0) open.push(...markers(run[0] ?? '', left));
	}
	const body = text.trimEnd();
	return open.length === 0 ? text : body + open.reverse().join('');
}

function markers(character: string, length: number): string[] {
	if (character === '~' || length <= 2) return [character.repeat(length)];
	return [character.repeat(length - 2), character.repeat(2)];
}
