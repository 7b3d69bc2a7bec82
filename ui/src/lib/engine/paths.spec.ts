// @vitest-environment node
import { describe, expect, it } from 'vitest';
import { settingsOf } from '../testing/samples';
import { forecastPath, pathMark } from './paths';

const titleOf = (id: string) => `Tab ${id}`;
const gate = { path: 'perRow', reasons: ['logprobs'], causedByConversationId: null, sinceStep: 1 } as const;

describe('pathMark', () => {
	it('is solid for a fused row', () => {
		const mark = pathMark({ ...gate, path: 'fused', reasons: [] }, titleOf);
		expect(mark.kind).toBe('fused');
	});

	it('is hatched for a row that needs its own path, and says why', () => {
		const mark = pathMark({ ...gate, reasons: ['logprobs'] }, titleOf);
		expect(mark).toMatchObject({ kind: 'perRow', label: 'per row: logprobs' });
		expect(mark.explanation).toContain('logprobs are recorded');
	});

	it('is hollow for a row that another tab slows, and names that tab', () => {
		const mark = pathMark({ ...gate, reasons: ['logprobs'], causedByConversationId: '7' }, titleOf);
		expect(mark.kind).toBe('slowed');
		expect(mark.explanation).toBe('Sampled per row because of the tab “Tab 7” (logprobs).');
	});
});

describe('forecastPath', () => {
	const plain = settingsOf();
	const other = settingsOf({ temperature: 1.2 });

	it('says nothing for a tab that will be fused', () => {
		expect(forecastPath(plain, 'split', [other])).toEqual([]);
		expect(forecastPath(plain, 'strict', [plain])).toEqual([]);
	});

	it('warns of logprobs in both modes', () => {
		const withLogprobs = settingsOf({ logprobs: 3 });
		expect(forecastPath(withLogprobs, 'split', [plain])).toEqual(['This tab will sample per row: logprobs.']);
		expect(forecastPath(withLogprobs, 'strict', [plain])[0]).toContain('take the other tabs with it');
	});

	it('warns of settings that differ, in Strict mode only', () => {
		expect(forecastPath(plain, 'strict', [other])[0]).toContain('differ from the other tabs');
		expect(forecastPath(plain, 'strict', [])).toEqual([]);
	});

	it('takes greedy as one setting, however it is written, and seeds as none', () => {
		const greedy = settingsOf({ temperature: 0 });
		expect(forecastPath(greedy, 'strict', [settingsOf({ topK: 1, temperature: 2 })])).toEqual([]);
		expect(forecastPath(settingsOf({ seed: '1' }), 'strict', [settingsOf({ seed: '2' })])).toEqual([]);
	});
});
