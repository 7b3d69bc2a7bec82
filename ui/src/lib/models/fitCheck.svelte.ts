import { asFailure, type Backend, type CommandFailure } from '../ipc/backend';
import type { FitReport } from '../ipc/wire';
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

	/** Checks the model's own context first, and takes the smaller one that is offered if there is one. */
	async start(): Promise<void> {
		await this.#check();
		const { fit } = this;
		if (!fit) return;
		this.steps = contextSteps(fit.modelContextTokens, [fit.contextTokens, fit.offeredContextTokens]);
		if (fit.offeredContextTokens !== null) {
			this.chosenTokens = fit.offeredContextTokens;
			await this.#check();
		}
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
