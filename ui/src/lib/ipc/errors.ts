import { t, wordsFor } from '../i18n/language.svelte';
import type { ErrorCode } from './wire';

/** `notice`: the user's input; `error`: something did not work; `fatal`: nothing works until the action is taken. */
export type Severity = 'notice' | 'error' | 'fatal';

/** The way out that is offered as a button. */
export type WayOut =
	'tabSettings' | 'restartEngine' | 'retry' | 'newConversation' | 'openModels' | 'openSettings';

export interface ErrorWording {
	severity: Severity;
	/** What happened, as a heading. */
	title: string;
	/** What stands now and what to do next. */
	advice: string;
	wayOut: WayOut | null;
}

/** How each error is shown and what is offered. Its words are in each language’s `errors.json`. */
export const errorKinds = {
	invalidSetting: { severity: 'notice', wayOut: 'tabSettings' },
	emptyMessage: { severity: 'notice', wayOut: null },
	conversationNotFound: { severity: 'error', wayOut: 'newConversation' },
	alreadyGenerating: { severity: 'notice', wayOut: null },
	contextTooLong: { severity: 'notice', wayOut: 'newConversation' },
	queueFull: { severity: 'notice', wayOut: 'retry' },
	templateRejected: { severity: 'error', wayOut: 'tabSettings' },
	engineNotReady: { severity: 'notice', wayOut: 'retry' },
	engineFailed: { severity: 'fatal', wayOut: 'restartEngine' },
	badLogits: { severity: 'error', wayOut: 'restartEngine' },
	grammarRefused: { severity: 'notice', wayOut: 'tabSettings' },
	grammarDeadEnd: { severity: 'error', wayOut: 'tabSettings' },
	grammarFailed: { severity: 'error', wayOut: 'retry' },
	tooLarge: { severity: 'notice', wayOut: 'tabSettings' },
	engineFault: { severity: 'error', wayOut: 'retry' },
	modelMissing: { severity: 'notice', wayOut: 'openModels' },
	modelUnusable: { severity: 'error', wayOut: 'openModels' },
	modelUnsupported: { severity: 'error', wayOut: 'openModels' },
	modelTooLarge: { severity: 'error', wayOut: 'openModels' },
	modelReplaced: { severity: 'notice', wayOut: 'retry' },
	modelUnloaded: { severity: 'notice', wayOut: 'openModels' },
	importRefused: { severity: 'error', wayOut: null },
	hubUnreachable: { severity: 'error', wayOut: 'retry' },
	hubAccess: { severity: 'notice', wayOut: 'openModels' },
	hubNotFound: { severity: 'notice', wayOut: null },
	hubBusy: { severity: 'notice', wayOut: 'retry' },
	hubFault: { severity: 'error', wayOut: 'retry' },
	downloadCorrupt: { severity: 'error', wayOut: 'retry' },
	modelInUse: { severity: 'notice', wayOut: null },
	downloadFailed: { severity: 'error', wayOut: 'retry' },
	downloadNotFound: { severity: 'notice', wayOut: null },
	diskFull: { severity: 'error', wayOut: 'retry' },
	attachmentRefused: { severity: 'notice', wayOut: null },
	cannotContinue: { severity: 'notice', wayOut: null },
	transferFailed: { severity: 'error', wayOut: 'retry' },
	remoteUnreachable: { severity: 'error', wayOut: 'openSettings' },
	remoteAccess: { severity: 'notice', wayOut: 'openSettings' },
	remoteRefused: { severity: 'error', wayOut: 'tabSettings' },
	remoteFault: { severity: 'error', wayOut: 'retry' },
	remoteUnknown: { severity: 'notice', wayOut: 'tabSettings' },
	remoteAddress: { severity: 'notice', wayOut: null },
	keychainFailed: { severity: 'error', wayOut: 'retry' },
	serverPortTaken: { severity: 'notice', wayOut: 'openSettings' },
	benchmarkBusy: { severity: 'notice', wayOut: null },
	historyTooNew: { severity: 'fatal', wayOut: null },
	historyFailed: { severity: 'error', wayOut: 'retry' },
	internal: { severity: 'error', wayOut: 'retry' },
} as const satisfies Record<ErrorCode, Pick<ErrorWording, 'severity' | 'wayOut'>>;

/** Words for a code, in the window's language. */
export function wordingOf(code: ErrorCode): ErrorWording {
	return { ...errorKinds[code], title: t(`errors:${code}Title`), advice: t(`errors:${code}Advice`) };
}

/** Label of the button for a way out. */
export const wayOutLabel = wordsFor<WayOut>({
	tabSettings: 'errors:wayTabSettings',
	restartEngine: 'errors:wayRestartEngine',
	retry: 'errors:wayRetry',
	newConversation: 'errors:wayNewConversation',
	openModels: 'errors:wayOpenModels',
	openSettings: 'errors:wayOpenSettings',
});
