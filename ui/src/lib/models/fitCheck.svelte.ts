import { asFailure, type Backend, type CommandFailure } from '../ipc/backend';
import type { FitReport, FitVerdict } from '../ipc/wire';
import { contextSteps } from './modelWords';

const checkAfterMs = 150;

/** What memory says to one model, for the context that is chosen. */
export class FitCheck {
	/** The latest answer; stays on screen while the next one is reckoned. */
	fit = $state.raw<FitReport | null>(null);
	failure = $state.raw<CommandFailure | null>(null);
	/** Context to load with, in tokens; `null` leaves it to Braid. */
	chosenTokens = $state<number | null>(null);
	/** Contexts to choose from, smallest first. */
	steps = $state.raw<number[]>([]);
	isChecking = $state(true);
	#backend: Backend;
	#modelId: string;
	#timer: ReturnType<typeof setTimeout> | undefined;
	#latest = 0;

	constructor(backend: Backend, modelId: string) {
		this.#backend = backend;
		this.#modelId = modelId;
	}

	/**
	 * Checks the model's own context first. If that does not fit, takes the largest one that is offered, or the step
	 * below it where that leaves room: what Braid suggests should not come with a warning.
	 */
	async start(): Promise<void> {
		await this.#check();
		const first = this.fit;
		if (!first) return;
		const offered = first.offeredContextTokens;
		this.steps = contextSteps(first.modelContextTokens, [first.contextTokens, offered]);
		if (offered === null) return;
		if ((await this.#try(offered)) !== 'tight') return;
		const below = this.steps[this.steps.indexOf(offered) - 1];
		if (below === undefined || (await this.#try(below)) !== 'tight') return;
		await this.#try(offered);
	}

	/** Place of the counted context among the steps. */
	get stepIndex(): number {
		const tokens = this.chosenTokens ?? this.fit?.contextTokens ?? 0;
		return Math.max(0, this.steps.indexOf(tokens));
	}

	/** Chooses a context; the check follows once the choice has stood for a moment. */
	choose(stepIndex: number) {
		this.chosenTokens = this.steps[stepIndex] ?? this.chosenTokens;
		this.isChecking = true;
		clearTimeout(this.#timer);
		this.#timer = setTimeout(() => void this.#check(), checkAfterMs);
	}

	/** Chooses a context and checks it at once. Resolves with the verdict, or `null` if there is another choice by now. */
	async #try(tokens: number): Promise<FitVerdict | null> {
		this.chosenTokens = tokens;
		await this.#check();
		return this.chosenTokens === tokens ? (this.fit?.verdict ?? null) : null;
	}

	async #check(): Promise<void> {
		const turn = ++this.#latest;
		this.isChecking = true;
		try {
			const fit = await this.#backend.checkModelFit(this.#modelId, this.chosenTokens);
			if (turn !== this.#latest) return;
			this.fit = fit;
			this.failure = null;
		} catch (thrown) {
			if (turn !== this.#latest) return;
			this.failure = asFailure(thrown);
		}
		this.isChecking = false;
	}
}
