import { expect, it } from 'vitest';
import { forecastPath, type BatchOutlook } from '../engine/paths';
import { settingsOf } from '../testing/samples';
import { matchBatch } from './matchBatch';

const schema = { kind: 'jsonSchema', schema: '{}' } as const;
const split: BatchOutlook = { mode: 'split', others: [], hasThinking: true };

it.each<[string, BatchOutlook]>([
	['split', split],
	['strict', { ...split, mode: 'strict', others: [settingsOf({ temperature: 1.2, topK: 5 })] }],
	['strict and alone', { ...split, mode: 'strict' }],
])('what it gives is fused, in %s', (_, outlook) => {
	const odd = settingsOf({
		structuredOutput: schema,
		thinkingBudget: 10,
		logprobs: 3,
		logitBias: [{ target: { kind: 'tokenId', id: 3 }, value: 1 }],
		repetitionPenalty: 1.2,
	});
	expect(forecastPath(odd, outlook)).not.toEqual([]);
	expect(forecastPath(matchBatch(odd, outlook).settings, outlook)).toEqual([]);
});

it('names what it changes, and touches nothing else', () => {
	const { settings, changes } = matchBatch(settingsOf({ logprobs: 3, seed: '9', systemPrompt: 'x' }), split);
	expect(changes).toEqual(['logprobs']);
	expect(settings).toEqual(settingsOf({ logprobs: null, seed: '9', systemPrompt: 'x' }));
});

it('changes nothing that is in step already, nor what another computer samples', () => {
	const plain = settingsOf();
	expect(matchBatch(plain, split)).toEqual({ settings: plain, changes: [] });
	expect(matchBatch(settingsOf({ logprobs: 1 }), { ...split, mode: 'folded' }).changes).toEqual([]);
	const away = settingsOf({ logprobs: 1, remote: { serverId: '1', model: 'm' } });
	expect(matchBatch(away, split).changes).toEqual([]);
});

it('takes the sampling of the batch in the strict mode only', () => {
	const others = [settingsOf({ temperature: 1.2 })];
	expect(matchBatch(settingsOf(), { ...split, others }).changes).toEqual([]);
	const strict = matchBatch(settingsOf(), { ...split, mode: 'strict', others });
	expect([strict.changes, strict.settings.temperature]).toEqual([['sampling'], 1.2]);
});
