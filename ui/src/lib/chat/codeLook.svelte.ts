import type { CodeLook } from './decorate';

const storageKey = 'braid-code-wrap';

function read(): boolean {
	try {
		return localStorage.getItem(storageKey) === 'yes';
	} catch {
		return false;
	}
}

/** How code looks; a global, as there is one window with one reader, who chooses once for every answer. */
export const codeLook: CodeLook = $state({ isWrapped: read() });

/** Wraps long lines of code, or lets them scroll; remembered on this computer. */
export function toggleWrap() {
	codeLook.isWrapped = !codeLook.isWrapped;
	try {
		localStorage.setItem(storageKey, codeLook.isWrapped ? 'yes' : 'no');
	} catch {
		// Without storage it holds until the window closes.
	}
}
