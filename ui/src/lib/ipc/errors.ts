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

/** The only place in the product where an error has words. */
export const errorWording = {
	invalidSetting: {
		severity: 'notice',
		title: 'A setting is out of range',
		advice: 'Change it in this tab’s settings, then send again.',
		wayOut: 'tabSettings',
	},
	emptyMessage: {
		severity: 'notice',
		title: 'There is nothing to send',
		advice: 'Type a message first.',
		wayOut: null,
	},
	conversationNotFound: {
		severity: 'error',
		title: 'This conversation is gone',
		advice: 'It was deleted. If that was a moment ago, “Undo” brings it back; otherwise start a new one.',
		wayOut: 'newConversation',
	},
	alreadyGenerating: {
		severity: 'notice',
		title: 'This tab is still answering',
		advice: 'Wait for the answer or stop it. Your message stays here.',
		wayOut: null,
	},
	contextTooLong: {
		severity: 'notice',
		title: 'This conversation no longer fits the model’s context window',
		advice: 'Shorten the message or start a new conversation. Your message stays here.',
		wayOut: 'newConversation',
	},
	queueFull: {
		severity: 'notice',
		title: 'Too many answers are waiting',
		advice: 'Let one finish or stop one, then send again. Your message stays here.',
		wayOut: 'retry',
	},
	templateRejected: {
		severity: 'error',
		title: 'The model’s chat template refused this conversation',
		advice: 'Some models allow no system prompt or expect another order. Try without the system prompt.',
		wayOut: 'tabSettings',
	},
	engineNotReady: {
		severity: 'notice',
		title: 'The model is still loading',
		advice: 'Your message stays here; send it once the model is ready.',
		wayOut: 'retry',
	},
	engineFailed: {
		severity: 'fatal',
		title: 'The engine stopped',
		advice: 'Everything written so far is saved. Restart the engine to go on.',
		wayOut: 'restartEngine',
	},
	badLogits: {
		severity: 'error',
		title: 'The model produced numbers that cannot be sampled',
		advice: 'Only this answer ended; the other tabs go on. Send again, or restart the engine if it repeats.',
		wayOut: 'restartEngine',
	},
	grammarRefused: {
		severity: 'notice',
		title: 'This structured output cannot be enforced',
		advice: 'The place and the reason are below. Change it in this tab’s settings, then try again.',
		wayOut: 'tabSettings',
	},
	grammarDeadEnd: {
		severity: 'error',
		title: 'The structured output leaves the model no way on',
		advice:
			'No token of this model continues the answer as asked. Loosen the schema or grammar, then try again.',
		wayOut: 'tabSettings',
	},
	grammarFailed: {
		severity: 'error',
		title: 'Enforcing the structured output failed',
		advice: 'Only this answer ended; the other tabs go on. Try again, or ask for a simpler structure.',
		wayOut: 'retry',
	},
	tooLarge: {
		severity: 'notice',
		title: 'This conversation needs more memory than there can be',
		advice: 'Shorten the message, start a new conversation or lower max tokens. Your message stays here.',
		wayOut: 'tabSettings',
	},
	engineFault: {
		severity: 'error',
		title: 'The engine had a fault, and this answer ended',
		advice: 'The engine goes on, and what was written is kept. Try again.',
		wayOut: 'retry',
	},
	modelMissing: {
		severity: 'notice',
		title: 'There is no model to answer with',
		advice: 'Import a folder or a GGUF file, or get a model from the hub: all under Models.',
		wayOut: 'openModels',
	},
	modelUnusable: {
		severity: 'error',
		title: 'The model’s files are damaged or not supported',
		advice: 'Delete the model and get it again, or load another one.',
		wayOut: 'openModels',
	},
	modelUnsupported: {
		severity: 'error',
		title: 'Braid cannot run this model',
		advice: 'It asks for something that Braid does not have; the details name it. Load another model.',
		wayOut: 'openModels',
	},
	modelTooLarge: {
		severity: 'error',
		title: 'This model does not fit into memory',
		advice: 'Load it with a smaller context, close other programs, or choose a smaller model.',
		wayOut: 'openModels',
	},
	modelReplaced: {
		severity: 'notice',
		title: 'Another model took the place of this one',
		advice: 'What was written is kept. Ask again to get an answer from the new model.',
		wayOut: 'retry',
	},
	modelUnloaded: {
		severity: 'notice',
		title: 'No model is loaded',
		advice: 'Load one under Models. Everything written is kept.',
		wayOut: 'openModels',
	},
	importRefused: {
		severity: 'error',
		title: 'This cannot be imported',
		advice: 'The details say which file or part is at fault. Nothing was changed on the disk.',
		wayOut: null,
	},
	hubUnreachable: {
		severity: 'error',
		title: 'The hub cannot be reached',
		advice:
			'Check the connection, and the address and proxy under “Where models come from”. What was downloaded is kept.',
		wayOut: 'retry',
	},
	hubAccess: {
		severity: 'notice',
		title: 'The hub does not let you have this model yet',
		advice: 'Accept its terms on its page, and set a token of your account under “Where models come from”.',
		wayOut: 'openModels',
	},
	hubNotFound: {
		severity: 'notice',
		title: 'The hub has no such model',
		advice: 'Check the name. A private model needs a token, set under “Where models come from”.',
		wayOut: null,
	},
	hubBusy: {
		severity: 'notice',
		title: 'The hub asks for patience',
		advice: 'Too many requests came from here in a short time. The details say how long to wait.',
		wayOut: 'retry',
	},
	hubFault: {
		severity: 'error',
		title: 'The hub has a fault',
		advice: 'This is not your doing. Try again later; what was downloaded is kept.',
		wayOut: 'retry',
	},
	downloadCorrupt: {
		severity: 'error',
		title: 'What arrived is not what was announced',
		advice: 'The file was fetched twice and thrown away. Try again later, or use another network.',
		wayOut: 'retry',
	},
	modelInUse: {
		severity: 'notice',
		title: 'This model cannot be deleted now',
		advice: 'Unload it first. The model that came with Braid stays.',
		wayOut: null,
	},
	downloadFailed: {
		severity: 'error',
		title: 'The folder of downloads cannot be used',
		advice:
			'Check that it may be written and that no other Braid uses it; the details say what the system said.',
		wayOut: 'retry',
	},
	downloadNotFound: {
		severity: 'notice',
		title: 'This download is gone',
		advice: 'It ended or was cancelled meanwhile.',
		wayOut: null,
	},
	diskFull: {
		severity: 'error',
		title: 'The disk is full',
		advice: 'Free some space. What was saved before is safe, and your text stays here.',
		wayOut: 'retry',
	},
	attachmentRefused: {
		severity: 'notice',
		title: 'This cannot be attached',
		advice: 'The details name the file, the reason and the limit. What you typed stays here.',
		wayOut: null,
	},
	cannotContinue: {
		severity: 'notice',
		title: 'This answer cannot go on from there',
		advice: 'The details say why. Regenerate it instead; this version stays.',
		wayOut: null,
	},
	transferFailed: {
		severity: 'error',
		title: 'The file could not be written or read',
		advice: 'Choose another place, or check its permissions. Your conversations are as they were.',
		wayOut: 'retry',
	},
	remoteUnreachable: {
		severity: 'error',
		title: 'The server cannot be reached',
		advice: 'Check that it runs, and its address in the settings. Your message stays here.',
		wayOut: 'openSettings',
	},
	remoteAccess: {
		severity: 'notice',
		title: 'The server does not accept the key',
		advice: 'Set its key in the settings, then try again.',
		wayOut: 'openSettings',
	},
	remoteRefused: {
		severity: 'error',
		title: 'The server refused the request',
		advice: 'Its own words are below. Change this tab’s settings or its model, then try again.',
		wayOut: 'tabSettings',
	},
	remoteFault: {
		severity: 'error',
		title: 'The server broke off',
		advice: 'What it wrote until then is kept. Try again.',
		wayOut: 'retry',
	},
	remoteUnknown: {
		severity: 'notice',
		title: 'The server of this tab was removed',
		advice: 'Choose another one, or the model on this computer, in this tab’s settings.',
		wayOut: 'tabSettings',
	},
	remoteAddress: {
		severity: 'notice',
		title: 'This is no address of a server',
		advice: 'It looks like http://127.0.0.1:8000/v1. The details say what is wrong.',
		wayOut: null,
	},
	keychainFailed: {
		severity: 'error',
		title: 'The key could not be stored or read',
		advice: 'Unlock the system’s keychain, then try again.',
		wayOut: 'retry',
	},
	serverPortTaken: {
		severity: 'notice',
		title: 'The server cannot listen on its port',
		advice: 'Another program uses it. Choose another port.',
		wayOut: 'openSettings',
	},
	benchmarkBusy: {
		severity: 'notice',
		title: 'The benchmark needs the engine for itself',
		advice: 'Let the answers finish or stop them, then start it again.',
		wayOut: null,
	},
	historyTooNew: {
		severity: 'fatal',
		title: 'Your history was written by a newer Braid',
		advice: 'Nothing was changed. Open it with the newer version.',
		wayOut: null,
	},
	historyFailed: {
		severity: 'error',
		title: 'The history could not be read or written',
		advice: 'Nothing was deleted. Check the disk and its permissions, then try again.',
		wayOut: 'retry',
	},
	internal: {
		severity: 'error',
		title: 'Something in Braid went wrong',
		advice: 'Your messages are saved. Try again; if it repeats, copy the details into a report.',
		wayOut: 'retry',
	},
} as const satisfies Record<ErrorCode, ErrorWording>;

/** Words for a code. */
export function wordingOf(code: ErrorCode): ErrorWording {
	return errorWording[code];
}

/** Label of the button for a way out. */
export const wayOutLabel: Record<WayOut, string> = {
	tabSettings: 'Open tab settings',
	restartEngine: 'Restart engine',
	retry: 'Try again',
	newConversation: 'New conversation',
	openModels: 'Open Models',
	openSettings: 'Open settings',
};
