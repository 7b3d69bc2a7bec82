import { describe, expect, it } from 'vitest';
import { schemaFromExample } from './schemaFromExample';

describe('schemaFromExample', () => {
	it.each([
		['Paris', { type: 'string' }],
		['2026-11-30', { type: 'string', format: 'date' }],
		['2026-13-30', { type: 'string' }],
		['2026-11-30T05:22:23Z', { type: 'string', format: 'date-time' }],
		['7c9e6679-7425-40de-944b-e07fc1f90ae7', { type: 'string', format: 'uuid' }],
		[3, { type: 'integer' }],
		[3.5, { type: 'number' }],
		[true, { type: 'boolean' }],
		[null, { type: 'null' }],
		[[], { type: 'array' }],
	])('describes %j', (example, schema) => {
		expect(schemaFromExample(example)).toEqual(schema);
	});

	it('requires every field of an object, and allows no other', () => {
		expect(schemaFromExample({ city: 'Paris', at: { lat: 48.9 } })).toEqual({
			type: 'object',
			properties: {
				city: { type: 'string' },
				at: {
					type: 'object',
					properties: { lat: { type: 'number' } },
					required: ['lat'],
					additionalProperties: false,
				},
			},
			required: ['city', 'at'],
			additionalProperties: false,
		});
	});

	it('has one schema for all items of a list; a field that some lack is not required', () => {
		expect(schemaFromExample([{ a: 1 }, { a: 2.5, b: '2026-01-01' }, { a: 1, b: 'soon' }])).toEqual({
			type: 'array',
			items: {
				type: 'object',
				properties: { a: { type: 'number' }, b: { type: 'string' } },
				required: ['a'],
				additionalProperties: false,
			},
		});
	});

	it('allows nothing beside something, and several kinds', () => {
		expect(schemaFromExample(['a', null])).toEqual({ type: 'array', items: { type: ['string', 'null'] } });
		expect(schemaFromExample([[1], null])).toEqual({
			type: 'array',
			items: { anyOf: [{ type: 'array', items: { type: 'integer' } }, { type: 'null' }] },
		});
	});

	it('takes names that objects have of their own', () => {
		const example: unknown = JSON.parse('{"__proto__": 1, "toString": "x"}');
		const { properties } = schemaFromExample(example) as { properties: object };
		expect(Object.keys(properties)).toEqual(['__proto__', 'toString']);
	});

	it('ends somewhere', () => {
		const deep: unknown = JSON.parse('['.repeat(2000) + ']'.repeat(2000));
		expect(JSON.stringify(schemaFromExample(deep)).length).toBeLessThan(3000);
	});
});
