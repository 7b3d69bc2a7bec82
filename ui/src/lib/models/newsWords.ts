import { t } from '../i18n/language.svelte';
import { wayOutLabel, wordingOf } from '../ipc/errors';
import { nameOfPath } from './modelWords';
import type { StatusChanges } from './statusChanges';

/** A short word about models for a person who looks elsewhere. */
export interface News {
	text: string;
	detail: string | null;
	tone: 'plain' | 'error';
	/** Where it leads: to the Models screen, and there to a model's load panel. */
	leadsTo: { label: string; modelId: string | null } | null;
}

/** What is worth saying of `changes`; what the Models screen shows itself is left out while that is open. */
export function newsWords(
	changes: StatusChanges,
	{ nameOf, isScreenOpen }: { nameOf: (modelId: string) => string; isScreenOpen: boolean },
): News[] {
	const look = { label: wayOutLabel.openModels, modelId: null };
	const { loadedModelId, loadFailure, done, failed, imported, refused } = changes;
	const good = [
		...(loadedModelId === null ? [] : [t('models:newsReady', { name: nameOf(loadedModelId) })]),
		...imported.map(({ source }) => t('models:newsImported', { name: nameOfPath(source) })),
	].map((text): News => ({ text, detail: null, tone: 'plain', leadsTo: null }));
	if (isScreenOpen) return good;
	const complete = done.map(({ repo, phase }): News => {
		const modelId = phase.kind === 'done' ? phase.modelId : null;
		const leadsTo = modelId === null ? look : { label: t('models:loadNow'), modelId };
		return { text: t('models:newsDownloaded', { name: repo }), detail: null, tone: 'plain', leadsTo };
	});
	const bad = [
		...(loadFailure === null
			? []
			: [
					{
						text: t('models:newsNotLoaded', { name: nameOf(loadFailure.modelId) }),
						problem: loadFailure.problem,
					},
				]),
		...refused.map(({ source, problem }) => ({
			text: t('models:newsNotImported', { name: nameOfPath(source) }),
			problem,
		})),
		...failed.map(({ repo, phase }) => ({
			text: t('models:newsDownloadStopped', { name: repo }),
			problem: phase.kind === 'failed' ? phase.problem : null,
		})),
	].map(({ text, problem }): News => {
		const detail = problem && wordingOf(problem.code).title;
		return { text, detail, tone: 'error', leadsTo: look };
	});
	return [...good, ...complete, ...bad];
}
