import { placeAt, placeOfPointer } from '../../settings/jsonPlaces';
import type { StructureCheck, StructuredOutput, StructureProblem } from '../wire';

/** Keywords that the scripted engine does not enforce. */
const ignoredKeywords = ['not', 'if', 'uniqueItems', 'contains', 'dependentSchemas'];

/** What the scripted engine says of a structure: enough to draw each kind of problem at its place. */
export function checkScripted(output: StructuredOutput): StructureCheck {
	const problems =
		output.kind === 'jsonSchema'
			? schemaProblems(output.schema)
			: output.kind === 'regex'
				? regexProblems(output.pattern)
				: larkProblems(output.grammar);
	return { isEnforceable: problems.every(({ severity }) => severity !== 'error'), problems };
}

function schemaProblems(text: string): StructureProblem[] {
	try {
		return ignoredIn(JSON.parse(text), '').map((pointer) => {
			const message = `the keyword “${pointer.split('/').at(-1)}”`;
			const place = placeOfPointer(text, pointer);
			return { severity: 'ignored', pointer, line: place?.line ?? null, column: null, message };
		});
	} catch (thrown) {
		const said = thrown instanceof Error ? thrown.message : String(thrown);
		const offset = Number(/position (\d+)/.exec(said)?.[1] ?? text.length);
		const { line, column } = placeAt(text, offset);
		return [{ severity: 'error', pointer: null, line, column, message: 'expected value' }];
	}
}

function ignoredIn(schema: unknown, pointer: string): string[] {
	if (typeof schema !== 'object' || schema === null) return [];
	return Object.entries(schema).flatMap(([name, value]) => {
		const here = `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
		const isKeyword = !pointer.endsWith('/properties') && ignoredKeywords.includes(name);
		return [...(isKeyword ? [here] : []), ...ignoredIn(value, here)];
	});
}

function regexProblems(pattern: string): StructureProblem[] {
	const look = /\(\?[=!<]/.exec(pattern);
	if (!look) return [];
	const message = 'look-around is not supported';
	return [{ severity: 'error', pointer: null, line: 1, column: look.index + 1, message }];
}

function larkProblems(grammar: string): StructureProblem[] {
	if (/^start\s*:/m.test(grammar)) return [];
	const message = 'there is no rule called “start”';
	return [{ severity: 'error', pointer: null, line: 1, column: 1, message }];
}
