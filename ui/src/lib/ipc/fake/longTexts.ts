import type { MessageView } from '../wire';

/** Pseudo-random numbers from `seed`, in [0, 1): the same texts in every run. */
function randomFrom(seed: number): () => number {
	let state = (seed * 2_654_435_761) % 4_294_967_296 || 1;
	return () => {
		state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
		return state / 4_294_967_296;
	};
}

const words =
	'the batch step row token kernel cache prompt answer window reader paper light morning river stone bridge letter garden winter summer table kettle quiet long narrow early steady measured number memory limit queue frame scroll sentence paragraph reason because while before after between against through every other small large first second almost always never often'.split(
		' ',
	);

class Writer {
	#random: () => number;

	constructor(seed: number) {
		this.#random = randomFrom(seed);
	}

	below(limit: number): number {
		return Math.floor(this.#random() * limit);
	}

	#word(): string {
		return words[this.below(words.length)] ?? 'word';
	}

	phrase(length: number): string {
		return Array.from({ length }, () => this.#word()).join(' ');
	}

	paragraph(): string {
		const sentences = Array.from({ length: 2 + this.below(4) }, () => {
			const [marked, code] = [this.below(5) === 0, this.below(6) === 0];
			const middle = marked ? ` **${this.phrase(2)}**` : code ? ` \`${this.#word()}_${this.#word()}\`` : '';
			return `The ${this.phrase(5 + this.below(9))}${middle} ${this.phrase(3)}.`;
		});
		return sentences.join(' ');
	}

	list(items: number): string {
		return Array.from({ length: items }, () => `- **${this.phrase(2)}:** ${this.phrase(9)}`).join('\n');
	}

	code(lines: number): string {
		const body = Array.from({ length: lines }, (_, i) => {
			const [a, b] = [this.#word(), this.#word()];
			return i % 6 === 0
				? `    // ${this.phrase(6)}`
				: `    let ${a}_${i} = ${b}.step("${a}", ${this.below(1000)})?;`;
		});
		return `\`\`\`rust\nfn ${this.#word()}(${this.#word()}: &str) -> usize {\n${body.join('\n')}\n}\n\`\`\``;
	}

	table(rows: number): string {
		const body = Array.from(
			{ length: rows },
			() => `| ${this.phrase(2)} | ${this.below(5000)} | ${this.phrase(4)} |`,
		);
		return `| Part | Number | Remark |\n| --- | ---: | --- |\n${body.join('\n')}`;
	}

	block(): string {
		switch (this.below(10)) {
			case 0:
				return `### ${this.phrase(4)}`;
			case 1:
				return this.list(4 + this.below(6));
			case 2:
				return this.code(6 + this.below(16));
			case 3:
				return this.table(3 + this.below(6));
			case 4:
				return `> ${this.phrase(14)}`;
			default:
				return this.paragraph();
		}
	}
}

/** Markdown of about `characters` characters with everything that answers have in them. */
export function longAnswer(seed: number, characters: number): string {
	const writer = new Writer(seed);
	const blocks: string[] = [];
	let length = 0;
	while (length < characters) {
		// Now and then a block that is long by itself.
		const isLong = blocks.length % 40 === 25;
		const block = !isLong ? writer.block() : blocks.length % 80 === 25 ? writer.code(120) : writer.list(60);
		blocks.push(block);
		length += block.length + 2;
	}
	return blocks.join('\n\n');
}

/** A conversation of `count` messages with about `characters` characters in all. */
export function longConversation(count: number, characters: number): MessageView[] {
	const perAnswer = (characters / count) * 2 - 120;
	return Array.from({ length: count }, (_, i): MessageView => {
		const isUser = i % 2 === 0;
		const writer = new Writer(i + 1);
		return {
			id: String(1001 + i),
			parentId: i === 0 ? null : String(1000 + i),
			role: isUser ? 'user' : 'assistant',
			text: isUser
				? `Question ${i / 2 + 1}: ${writer.phrase(16)}?`
				: longAnswer(i, perAnswer * (0.4 + ((i * 7) % 10) / 8)),
			state: 'complete',
			createdAtMs: Date.UTC(2026, 0, 1) + i * 60_000,
			finishReason: isUser ? null : 'endOfTurn',
			receipt: null,
			versionIds: [],
			thinking: '',
			thinkingTokens: 0,
			attachments: [],
		};
	});
}
