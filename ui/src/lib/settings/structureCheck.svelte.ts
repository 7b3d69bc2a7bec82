import type { StructureCheck, StructuredOutput, StructureProblem } from '../ipc/wire';
import { offsetAt, placeAt, placeOfPointer } from './jsonPlaces';

/** A check begins once nothing was typed for so long. */
const checkAfterMs = 250;

/** A problem and the part of the text that it is about, in characters from the start. */
export interface PlacedProblem {
	severity: StructureProblem['severity'];
	message: string;
	from: number;
	to: number;
	/** From 1; `null` if nobody knows where it is. */
	line: number | null;
}

/** Where a problem is in the text that was checked. */
export function placeProblem(problem: StructureProblem, text: string): PlacedProblem {
	const { severity, message, pointer, line, column } = problem;
	const byPointer = pointer === null || pointer === '' ? null : placeOfPointer(text, pointer);
	const from =
		line !== null && column !== null
			? offsetAt(text, line, column)
			: (byPointer?.offset ?? (line === null ? null : offsetAt(text, line, 1)));
	if (from === null) return { severity, message, from: 0, to: 0, line: null };
	return { severity, message, from, to: endOf(text, from), line: placeAt(text, from).line };
}

/** The end of the word, string or sign at `from`. */
function endOf(text: string, from: number): number {
	const part = /"(?:[^"\\\n]|\\.)*"?|[\p{L}\d_$.-]+|[^\s]/uy;
	part.lastIndex = from;
	return from + (part.exec(text)?.[0].length ?? 0);
}

/** Checks structured output while it is typed: the newest text wins. */
export class StructureChecker {
	problems = $state.raw<readonly PlacedProblem[]>([]);
	/** Whether the text of now can be enforced; `null` until it is checked. */
	isEnforceable = $state<boolean | null>(null);
	#check: (output: StructuredOutput) => Promise<StructureCheck>;
	#timer: ReturnType<typeof setTimeout> | undefined;
	#latest = 0;

	constructor(check: (output: StructuredOutput) => Promise<StructureCheck>) {
		this.#check = check;
	}

	/** Asks for a check soon; `null` is free text, which has no problems. */
	look(output: StructuredOutput | null) {
		clearTimeout(this.#timer);
		const turn = ++this.#latest;
		this.isEnforceable = null;
		if (output === null) this.problems = [];
		else this.#timer = setTimeout(() => void this.#run(output, turn), checkAfterMs);
	}

	async #run(output: StructuredOutput, turn: number): Promise<void> {
		const text = textOf(output);
		// What cannot be checked now is checked when the message is sent.
		const found = await this.#check(output).catch(() => null);
		if (turn !== this.#latest) return;
		this.problems = found?.problems.map((problem) => placeProblem(problem, text)) ?? [];
		this.isEnforceable = found?.isEnforceable ?? null;
	}
}

function textOf(output: StructuredOutput): string {
	if (output.kind === 'jsonSchema') return output.schema;
	return output.kind === 'regex' ? output.pattern : output.grammar;
}
