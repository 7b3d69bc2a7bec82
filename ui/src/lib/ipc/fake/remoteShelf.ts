import type { RemoteModel, RemoteModelDetails } from '../wire';
import { fitOf } from './modelShelf';

interface Remote {
	model: RemoteModel;
	weightsBytes: number;
	kvCacheBytesPerToken: number;
	contextTokens: number;
	details: Pick<RemoteModelDetails, 'licence' | 'architecture' | 'quantisation' | 'problem'>;
}

/** Repositories of the scripted hub, most downloaded first. */
export const remotes: Remote[] = [
	remote('mlx-community/Qwen3-0.6B-4bit', 351_403_161, 114_688, 40_960, {
		architecture: 'qwen3',
		licence: 'apache-2.0',
	}),
	remote('mlx-community/Llama-3.2-1B-Instruct-4bit', 712_575_975, 32_768, 131_072, {
		architecture: 'llama',
		licence: 'llama3.2',
	}),
	remote('mlx-community/gemma-3-27b-it-4bit', 16_912_845_000, 126_976, 131_072, {
		architecture: 'gemma3',
		licence: 'gemma',
		isGated: true,
	}),
	remote('mlx-community/whisper-large-v3-mlx', 3_083_520_000, 0, 448, {
		architecture: 'whisper',
		licence: null,
		problem: {
			code: 'modelUnsupported',
			detail: 'config.json: model_type "whisper" is not among gemma3_text, llama, mistral, qwen2, qwen3',
		},
	}),
	remote('mlx-community/Qwen3-4B-4bit', 2_278_972_341, 147_456, 40_960, {
		architecture: 'qwen3',
		licence: 'apache-2.0',
	}),
];

function remote(
	repo: string,
	weightsBytes: number,
	kvCacheBytesPerToken: number,
	contextTokens: number,
	{
		architecture,
		licence,
		isGated = false,
		problem = null,
	}: Pick<RemoteModelDetails, 'architecture' | 'licence'> &
		Partial<RemoteModelDetails & { isGated: boolean }>,
): Remote {
	const digits = repo.length * 7919;
	return {
		model: {
			repo,
			downloads: digits * 3,
			likes: digits % 211,
			updatedAt: `2026-0${1 + (repo.length % 8)}-1${repo.length % 9}T08:15:00.000Z`,
			isGated,
			tags: ['mlx', 'safetensors', architecture ?? '', 'text-generation', '4-bit'].filter(
				(tag) => tag !== '',
			),
		},
		weightsBytes,
		kvCacheBytesPerToken,
		contextTokens,
		details: { architecture, licence, quantisation: '4-bit', problem },
	};
}

/** Where bytes of the page of details come from: weights and the small files beside them. */
export function detailsOf(found: Remote, installedModelId: string | null): RemoteModelDetails {
	const { model, weightsBytes, kvCacheBytesPerToken, contextTokens, details } = found;
	const files = [
		{ path: 'config.json', bytes: 937 },
		{ path: 'model.safetensors', bytes: weightsBytes },
		{ path: 'model.safetensors.index.json', bytes: 49_731 },
		{ path: 'tokenizer.json', bytes: 11_422_654 },
		{ path: 'tokenizer_config.json', bytes: 9706 },
	];
	const fit = { diskBytes: weightsBytes, kvCacheBytesPerToken, modelContextTokens: contextTokens };
	return {
		...details,
		repo: model.repo,
		commit: '9f3c1b7a5d2e8046b1c7fa90d3e54a6b7c8d9e0f',
		files,
		downloadBytes: files.reduce((sum, file) => sum + file.bytes, 0),
		skippedFiles: 4,
		freeDiskBytes: 91_268_055_040,
		fit: details.problem ? null : fitOf(fit, Math.min(contextTokens, 8192)),
		installedModelId,
	};
}
