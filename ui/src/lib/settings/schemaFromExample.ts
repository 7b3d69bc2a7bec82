/** A JSON Schema as it is written down. */
export type Schema = { [keyword: string]: unknown };

const deepest = 64;

/** Formats that a text may have; only what all texts of a place agree on is asked for. */
const formats: readonly [string, RegExp][] = [
	['date', /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/],
	['date-time', /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/],
	['uuid', /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i],
];

/**
 * A schema that the example matches, and others like it: objects with their fields, all of them required, lists with
 * one schema for all their items.
 */
export function schemaFromExample(example: unknown): Schema {
	return schemaOf([example], 0);
}

/** The schema of a place at which all of `samples` were seen. */
function schemaOf(samples: readonly unknown[], depth: number): Schema {
	if (depth > deepest) return {};
	const objects = samples.filter(isObject);
	const lists = samples.filter((sample) => Array.isArray(sample));
	const texts = samples.filter((sample) => typeof sample === 'string');
	const numbers = samples.filter((sample) => typeof sample === 'number');
	const kinds = [
		...(objects.length > 0 ? [objectSchema(objects, depth)] : []),
		...(lists.length > 0 ? [listSchema(lists, depth)] : []),
		...(texts.length > 0 ? [textSchema(texts)] : []),
		...(numbers.length > 0 ? [{ type: numbers.every(Number.isInteger) ? 'integer' : 'number' }] : []),
		...(samples.some((sample) => typeof sample === 'boolean') ? [{ type: 'boolean' }] : []),
		...(samples.some((sample) => sample === null) ? [{ type: 'null' }] : []),
	];
	const [only] = kinds;
	if (kinds.length <= 1) return only ?? {};
	// Kinds that say no more than their name fit into one list of names.
	if (kinds.every((kind) => Object.keys(kind).length === 1)) return { type: kinds.map(({ type }) => type) };
	return { anyOf: kinds };
}

function isObject(sample: unknown): sample is Record<string, unknown> {
	return typeof sample === 'object' && sample !== null && !Array.isArray(sample);
}

function objectSchema(objects: readonly Record<string, unknown>[], depth: number): Schema {
	const names = [...new Set(objects.flatMap((object) => Object.keys(object)))];
	const having = (name: string) => objects.filter((object) => Object.hasOwn(object, name));
	return {
		type: 'object',
		properties: Object.fromEntries(
			names.map((name) => [
				name,
				schemaOf(
					having(name).map((object) => object[name]),
					depth + 1,
				),
			]),
		),
		required: names.filter((name) => having(name).length === objects.length),
		additionalProperties: false,
	};
}

function listSchema(lists: readonly unknown[][], depth: number): Schema {
	const items = lists.flat();
	return items.length === 0 ? { type: 'array' } : { type: 'array', items: schemaOf(items, depth + 1) };
}

function textSchema(texts: readonly string[]): Schema {
	const format = formats.find(([, looks]) => texts.every((text) => looks.test(text)));
	return format ? { type: 'string', format: format[0] } : { type: 'string' };
}
