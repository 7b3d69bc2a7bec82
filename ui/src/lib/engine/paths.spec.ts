// @vitest-environment node
import { describe, expect, it } from 'vitest';
import type { GateMode, SamplingSettings } from '../ipc/wire';
import { settingsOf } from '../testing/samples';
import { forecastPath, pathMark } from './paths';

const titleOf = (id: string) => `Tab ${id}`;
const gate = { path: 'perRow', reasons: ['logprobs'], causedByConversationId: null, sinceStep: 1 } as const;

describe('pathMark', () => {
	it('is solid for a fused row', () => {
		const mark = pathMark({ ...gate, path: 'fused', reasons: [] }, titleOf);
		expect(mark.kind).toBe('fused');
	});

	it('says what rides inside the fused step', () => {
		const mark = pathMark(
			{ ...gate, path: 'fused', reasons: ['structuredMask', 'singleRow', 'logprobs'] },
			titleOf,
		);
		expect(mark).toMatchObject({ kind: 'fused', label: 'fused with mask, logprobs' });
		expect(mark.explanation).toContain('with its mask, logprobs inside');
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
	const forecast = (settings: SamplingSettings, mode: GateMode, others: SamplingSettings[] = []) =>
		forecastPath(settings, { mode, others, hasThinking: true });

	it('says nothing for a tab that will be fused', () => {
		expect(forecast(plain, 'split', [other])).toEqual([]);
		expect(forecast(plain, 'strict', [plain])).toEqual([]);
	});

	it.each<[string, Partial<SamplingSettings>]>([
		['logprobs', { logprobs: 3 }],
		['JSON schema', { structuredOutput: { kind: 'jsonSchema', schema: '{}' } }],
		['regex', { structuredOutput: { kind: 'regex', pattern: 'a+' } }],
		['thinking budget', { thinkingBudget: 0 }],
		['logit bias', { logitBias: [{ target: { kind: 'tokenId', id: 7 }, value: 1 }] }],
		['penalties', { presencePenalty: 0.5 }],
	])('warns of %s in Strict and Split, and not in Folded', (need, changes) => {
		const settings = settingsOf(changes);
		expect(forecast(settings, 'split', [plain])).toEqual([`This tab will sample per row: ${need}.`]);
		expect(forecast(settings, 'strict', [plain])[0]).toContain('take the other tabs with it');
		expect(forecast(plain, 'strict', [settings])[0]).toContain(`another tab asks for ${need}`);
		expect(forecast(settings, 'folded', [plain])).toEqual([]);
	});

	it('takes a thinking budget for nothing where the model does not think', () => {
		const outlook = { mode: 'split', others: [], hasThinking: false } as const;
		expect(forecastPath(settingsOf({ thinkingBudget: 5 }), outlook)).toEqual([]);
	});

	it('warns of settings that differ, in Strict mode only', () => {
		expect(forecast(plain, 'strict', [other])[0]).toContain('differ from the other tabs');
		expect(forecast(plain, 'strict')).toEqual([]);
		expect(forecast(plain, 'folded', [other])).toEqual([]);
	});

	it('takes greedy as one setting, however it is written, and seeds as none', () => {
		const greedy = settingsOf({ temperature: 0 });
		expect(forecast(greedy, 'strict', [settingsOf({ topK: 1, temperature: 2 })])).toEqual([]);
		expect(forecast(settingsOf({ seed: '1' }), 'strict', [settingsOf({ seed: '2' })])).toEqual([]);
	});
});
