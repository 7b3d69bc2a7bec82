/** Where something begins in a text: characters from the start, and the same as line and column from 1. */
export interface Place {
	offset: number;
	line: number;
	column: number;
}

/** The place of an offset. */
export function placeAt(text: string, offset: number): Place {
	const before = text.slice(0, offset);
	const line = before.split('\n').length;
	return { offset, line, column: offset - before.lastIndexOf('\n') };
}

/** The offset of a line and a column from 1, in characters as Rust counts them; the nearest one that there is. */
export function offsetAt(text: string, line: number, column: number): number {
	const lines = text.split('\n');
	const at = Math.min(Math.max(1, line), lines.length);
	const start = lines.slice(0, at - 1).reduce((sum, each) => sum + each.length + 1, 0);
	const characters = [...(lines[at - 1] ?? '')].slice(0, Math.max(0, column - 1));
	return start + characters.join('').length;
}

/**
 * Where the value or key that a JSON pointer names stands in a JSON text; `null` if the text has no such part. Of a
 * member, the place of its key. Text that is not JSON is read as far as it is.
 *
 * Source: RFC 6901 (JSON pointer).
 */
export function placeOfPointer(text: string, pointer: string): Place | null {
	if (pointer === '') return placeAt(text, text.length - text.trimStart().length);
	const wanted = pointer
		.replace(/^#/, '')
		.split('/')
		.slice(1)
		.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
	const offset = new Reader(text).find(wanted);
	return offset === null ? null : placeAt(text, offset);
}

const maxDepth = 512;

class Reader {
	#text: string;
	#at = 0;
	#found: number | null = null;

	constructor(text: string) {
		this.#text = text;
	}

	find(wanted: readonly string[]): number | null {
		try {
			this.#value(wanted, 0);
		} catch (thrown) {
			if (thrown !== stopped) throw thrown;
		}
		return this.#found;
	}

	/** Reads a value; `wanted` is the rest of the way to what is looked for, `null` off that way. */
	#value(wanted: readonly string[] | null, depth: number) {
		if (depth > maxDepth) throw stopped;
		this.#space();
		const sign = this.#text[this.#at];
		if (sign === '{') this.#members('}', wanted, depth);
		else if (sign === '[') this.#members(']', wanted, depth);
		else if (sign === '"') this.#string();
		else this.#scalar();
	}

	#members(end: '}' | ']', wanted: readonly string[] | null, depth: number) {
		this.#at += 1;
		for (let index = 0; ; index += 1) {
			this.#space();
			const start = this.#at;
			if (this.#text[this.#at] === end) {
				this.#at += 1;
				return;
			}
			const name = end === '}' ? this.#key() : String(index);
			const isOnWay = wanted !== null && wanted[0] === name;
			if (isOnWay && wanted.length === 1) {
				this.#found = start;
				throw stopped;
			}
			this.#value(isOnWay ? wanted.slice(1) : null, depth + 1);
			this.#space();
			if (this.#text[this.#at] === ',') this.#at += 1;
			else if (this.#text[this.#at] !== end) throw stopped;
		}
	}

	#key(): string {
		const name = this.#string();
		this.#space();
		if (this.#text[this.#at] !== ':') throw stopped;
		this.#at += 1;
		return name;
	}

	#string(): string {
		const whole = /"(?:[^"\\]|\\.)*"/sy;
		whole.lastIndex = this.#at;
		const [literal] = whole.exec(this.#text) ?? [];
		if (literal === undefined) throw stopped;
		this.#at += literal.length;
		try {
			return JSON.parse(literal) as string;
		} catch {
			return literal.slice(1, -1);
		}
	}

	#scalar() {
		const scalar = /[^\s,\]}:"[{]+/y;
		scalar.lastIndex = this.#at;
		const [literal] = scalar.exec(this.#text) ?? [];
		if (literal === undefined) throw stopped;
		this.#at += literal.length;
	}

	#space() {
		while (/\s/.test(this.#text[this.#at] ?? '')) this.#at += 1;
	}
}

/** Thrown to leave the reading: what was looked for is found, or the text goes on as no JSON does. */
const stopped = new Error('the reading is over');
