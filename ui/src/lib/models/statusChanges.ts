import type { DownloadStatus, ModelImport, ModelLoadFailure, ModelsStatus } from '../ipc/wire';

/** What a status says that the one before did not. */
export interface StatusChanges {
	/** The list of models is worth reading anew. */
	isListStale: boolean;
	/** The model whose load has ended well. */
	loadedModelId: string | null;
	loadFailure: ModelLoadFailure | null;
	/** Downloads that are complete now. */
	done: DownloadStatus[];
	/** Downloads that stand still now because of a failure. */
	failed: DownloadStatus[];
	/** Imports that have ended with a model. */
	imported: ModelImport[];
	/** Imports that have ended without one. */
	refused: ModelImport[];
}

const nothing: StatusChanges = {
	isListStale: false,
	loadedModelId: null,
	loadFailure: null,
	done: [],
	failed: [],
	imported: [],
	refused: [],
};

/** Compares two statuses; the first one of a window brings no news but the list. */
export function changesBetween(before: ModelsStatus | null, after: ModelsStatus): StatusChanges {
	if (before === null) return { ...nothing, isListStale: true };
	const phaseBefore = new Map(before.downloads.map(({ downloadId, phase }) => [downloadId, phase.kind]));
	const became = (kind: DownloadStatus['phase']['kind']) =>
		after.downloads.filter(
			({ downloadId, phase }) => phase.kind === kind && phaseBefore.get(downloadId) !== kind,
		);
	const { loadedModelId } = after;
	const isOther = loadedModelId !== before.loadedModelId;
	// The same model may have been loaded anew, with another context.
	const isAnew =
		before.load?.modelId === loadedModelId && after.loadedContextTokens !== before.loadedContextTokens;
	const isListStale = after.listRevision !== before.listRevision;
	const refusedBefore = new Set(
		before.imports.filter(({ problem }) => problem !== null).map(({ importId }) => importId),
	);
	const stillThere = new Set(after.imports.map(({ importId }) => importId));
	const gone = before.imports.filter(
		({ importId, problem }) => problem === null && !stillThere.has(importId),
	);
	return {
		isListStale,
		loadedModelId: isOther || isAnew ? loadedModelId : null,
		loadFailure: before.loadFailure === null ? after.loadFailure : null,
		done: became('done'),
		failed: became('failed'),
		// One that was cancelled adds nothing to the list.
		imported: isListStale ? gone : [],
		refused: after.imports.filter(
			({ importId, problem }) => problem !== null && !refusedBefore.has(importId),
		),
	};
}
