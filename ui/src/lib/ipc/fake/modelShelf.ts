import type { FitReport, ModelEntry, ModelSummary } from '../wire';

const gib = 1024 ** 3;

/** Memory of the scripted computer. */
const device = { totalBytes: 16 * gib, freeBytes: 9.4 * gib, reserveBytes: 1.5 * gib };

/** A model of the scripted computer, and what its KV cache takes. */
export interface Shelved {
	entry: ModelEntry;
	kvCacheBytesPerToken: number;
}

export const starter: Shelved = {
	kvCacheBytesPerToken: 46_080,
	entry: {
		modelId: 'bundled:SmolLM2-135M-Instruct',
		name: 'SmolLM2-135M-Instruct',
		path: '/opt/braid/models/SmolLM2-135M-Instruct',
		origin: { kind: 'bundled' },
		diskBytes: 144_811_456,
		architecture: 'llama',
		quantisation: '8-bit',
		contextTokens: 2048,
		licence: 'apache-2.0',
		problem: null,
		isDeletable: false,
	},
};

const home = '/home/me/.local/share/braid/models';

/** One model of every kind. */
export const several: Shelved[] = [
	starter,
	{
		kvCacheBytesPerToken: 147_456,
		entry: {
			...starter.entry,
			modelId: 'hub:mlx-community/Qwen3-4B-4bit',
			name: 'Qwen3-4B-4bit',
			path: '/home/me/.cache/huggingface/hub/models--mlx-community--Qwen3-4B-4bit/snapshots/4dcb3d1',
			origin: {
				kind: 'hub',
				repo: 'mlx-community/Qwen3-4B-4bit',
				commit: '4dcb3d101c2a062e5c1d4bb173588c54ea6c4d25',
			},
			diskBytes: 2_278_972_341,
			architecture: 'qwen3',
			quantisation: '4-bit',
			contextTokens: 40_960,
			isDeletable: true,
		},
	},
	{
		kvCacheBytesPerToken: 26_624,
		entry: {
			...starter.entry,
			modelId: 'own:gemma-3-1b-it-4bit',
			name: 'gemma-3-1b-it-4bit',
			path: `${home}/gemma-3-1b-it-4bit`,
			origin: { kind: 'own' },
			diskBytes: 770_034_129,
			architecture: 'gemma3_text',
			quantisation: '4-bit',
			contextTokens: 32_768,
			licence: 'gemma',
			isDeletable: true,
		},
	},
	{
		kvCacheBytesPerToken: 9216,
		entry: {
			...starter.entry,
			modelId: 'own:tiny-gemma',
			name: 'tiny-gemma',
			path: `${home}/tiny-gemma`,
			origin: { kind: 'own' },
			diskBytes: 248_110_080,
			architecture: 'gemma3_text',
			quantisation: '4-bit',
			contextTokens: 8192,
			licence: 'gemma',
			isDeletable: true,
		},
	},
	{
		kvCacheBytesPerToken: 327_680,
		entry: {
			...starter.entry,
			modelId: 'reference:/data/models/Llama-3.3-70B-Instruct-4bit',
			name: 'Llama-3.3-70B-Instruct-4bit',
			path: '/data/models/Llama-3.3-70B-Instruct-4bit',
			origin: { kind: 'reference' },
			diskBytes: 39_695_671_296,
			quantisation: '4-bit',
			contextTokens: 131_072,
			licence: 'llama3.3',
			isDeletable: true,
		},
	},
	{
		kvCacheBytesPerToken: 0,
		entry: {
			...starter.entry,
			modelId: 'own:mamba-2.8b',
			name: 'mamba-2.8b',
			path: `${home}/mamba-2.8b`,
			origin: { kind: 'own' },
			diskBytes: 5_536_000_000,
			architecture: 'mamba',
			quantisation: 'f16',
			contextTokens: null,
			licence: null,
			problem: {
				code: 'modelUnsupported',
				detail: 'config.json: model_type "mamba" is not among gemma3_text, llama, mistral, qwen2, qwen3',
			},
			isDeletable: true,
		},
	},
	{
		kvCacheBytesPerToken: 0,
		entry: {
			...starter.entry,
			modelId: 'own:Phi-3-mini-4k-instruct-4bit',
			name: 'Phi-3-mini-4k-instruct-4bit',
			path: `${home}/Phi-3-mini-4k-instruct-4bit`,
			origin: { kind: 'own' },
			diskBytes: 1_204_301_824,
			architecture: 'phi3',
			quantisation: '4-bit',
			contextTokens: 4096,
			licence: 'mit',
			problem: {
				code: 'modelUnusable',
				detail: 'model.safetensors: the header names 2 149 888 000 bytes, the file has 1 204 301 824',
			},
			isDeletable: true,
		},
	},
];

/** What the scripted computer's memory says to a model, by the same sum as Rust's. */
export function fitOf(
	{
		diskBytes,
		kvCacheBytesPerToken,
		modelContextTokens,
	}: {
		diskBytes: number;
		kvCacheBytesPerToken: number;
		modelContextTokens: number;
	},
	contextTokens: number,
): FitReport {
	const tabs = 4;
	const workspaceBytes = 0.25 * gib;
	const { reserveBytes, freeBytes, totalBytes } = device;
	const needs = (context: number) =>
		diskBytes + workspaceBytes + reserveBytes + tabs * context * kvCacheBytesPerToken;
	const neededBytes = needs(contextTokens);
	const smaller = [65_536, 32_768, 16_384, 8192, 4096, 2048].find(
		(context) => context < contextTokens && needs(context) <= freeBytes,
	);
	const fits = neededBytes <= freeBytes;
	return {
		weightsBytes: diskBytes,
		kvCacheBytesPerTab: contextTokens * kvCacheBytesPerToken,
		tabs,
		contextTokens,
		modelContextTokens,
		workspaceBytes,
		reserveBytes,
		neededBytes,
		freeBytes,
		totalBytes,
		memoryKind: 'unified',
		verdict: !fits ? 'tooLarge' : neededBytes > 0.85 * freeBytes ? 'tight' : 'fits',
		offeredContextTokens: fits ? null : (smaller ?? null),
		replacesFirst: false,
	};
}

/** What the engine says of a model that it runs. */
export function summaryOf({ entry }: Shelved, contextTokens: number): ModelSummary {
	return {
		name: entry.name,
		architecture: entry.architecture ?? '',
		quantisation: entry.quantisation ?? '',
		computeDtype: 'float32',
		device: 'CPU',
		contextTokens,
		hasThinking: true,
		diskBytes: entry.diskBytes,
		recommended:
			entry.architecture === 'qwen3'
				? { temperature: 0.6, topP: 0.95, topK: 20, minP: null, repetitionPenalty: null }
				: null,
	};
}
