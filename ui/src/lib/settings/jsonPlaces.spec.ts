import { describe, expect, it } from 'vitest';
import { offsetAt, placeAt, placeOfPointer } from './jsonPlaces';

const schema = `{
  "type": "object",
  "properties": {
    "a/b": { "type": "string", "not": {} },
    "list": [1, { "x": "\\"}" }, true]
  }
}`;

describe('placeOfPointer', () => {
	it.each([
		['', '{'],
		['/type', '"type": "object"'],
		['/properties/a~1b/not', '"not"'],
		['/properties/list/1/x', '"x"'],
		['/properties/list/2', 'true'],
		['#/properties', '"properties"'],
	])('finds %j', (pointer, begins) => {
		const place = placeOfPointer(schema, pointer);
		expect(schema.slice(place?.offset).startsWith(begins)).toBe(true);
	});

	it.each(['/none', '/type/x', '/properties/list/9'])('says that %j is not there', (pointer) => {
		expect(placeOfPointer(schema, pointer)).toBeNull();
	});

	it('reads as far as a half-typed text is JSON', () => {
		expect(placeOfPointer('{"a": {"b": 1, "c": ', '/a/c')?.offset).toBe(15);
		expect(placeOfPointer('{"a" 1', '/b')).toBeNull();
		expect(placeOfPointer('['.repeat(100_000), '/0/1')).toBeNull();
	});
});

it('counts lines and columns from 1, columns in whole characters', () => {
	expect(placeAt(schema, schema.indexOf('"type"'))).toEqual({ offset: 4, line: 2, column: 3 });
	expect(offsetAt('a\n😀b', 2, 2)).toBe(4);
	expect(offsetAt('a\nb', 9, 9)).toBe(3);
});
