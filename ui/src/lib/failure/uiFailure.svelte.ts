import type { Backend } from '../ipc/backend';

/** Layout noise that browsers report as an error; nothing is broken by it. */
const harmless = /^ResizeObserver loop/;

/** At most this many reports a run: a failure in a loop must not fill the log. */
const maxReports = 20;

/** A defect of the UI itself: said in words, and reported to the log. */
export class UiFailure {
	/** Details of the latest failure that has not been dismissed. */
	details = $state<string | null>(null);
	#backend: Backend;
	#reports = 0;

	constructor(backend: Backend) {
		this.#backend = backend;
	}

	/** Listens to everything that nothing else catches. */
	listen(target: Window) {
		target.addEventListener('error', (event) => this.report(event.error ?? event.message));
		target.addEventListener('unhandledrejection', (event) => this.report(event.reason));
	}

	report(thrown: unknown) {
		const details = describe(thrown);
		if (harmless.test(details)) return;
		this.details = details;
		if (this.#reports >= maxReports) return;
		this.#reports += 1;
		// The log cannot be reached either: the words on screen are what is left.
		this.#backend.reportUiFailure(details).catch(() => {});
	}

	dismiss() {
		this.details = null;
	}
}

/** Message and stack, as one text. */
export function describe(thrown: unknown): string {
	if (!(thrown instanceof Error)) return String(thrown);
	const stack = thrown.stack ?? '';
	return stack.includes(thrown.message) ? stack : `${thrown.name}: ${thrown.message}\n${stack}`;
}
