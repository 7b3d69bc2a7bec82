import type { EngineStatus, MessageView, Receipt, RowStatus, SamplingSettings } from '../ipc/wire';

/** Whole wire values for tests; each takes what the test is about. */
export function settingsOf(changes: Partial<SamplingSettings> = {}): SamplingSettings {
	return {
		temperature: 0.7,
		topP: 0.9,
		topK: 0,
		minP: 0,
		seed: null,
		maxTokens: 512,
		logprobs: null,
		stop: [],
		systemPrompt: '',
		xtc: null,
		repetitionPenalty: 1,
		frequencyPenalty: 0,
		presencePenalty: 0,
		logitBias: [],
		wantsBiasTrace: false,
		structuredOutput: null,
		thinkingBudget: null,
		...changes,
	};
}

export function receiptOf(changes: Partial<Receipt> = {}): Receipt {
	return {
		ttftMs: 120,
		decodeTokS: 31.5,
		itlMsP50: 30,
		itlMsP95: 41,
		promptTokens: 40,
		cachedTokens: 0,
		answerTokens: 12,
		thinkingTokens: 0,
		fusedSteps: 12,
		perRowSteps: 0,
		meanBatchRows: 3.5,
		meanLogprob: null,
		recordedTokens: 0,
		settings: settingsOf({ seed: '7' }),
		...changes,
	};
}

export function answerMessage(changes: Partial<MessageView> = {}): MessageView {
	return {
		id: '2',
		parentId: '1',
		role: 'assistant',
		versionIds: ['2'],
		text: '',
		thinking: '',
		thinkingTokens: 0,
		state: 'streaming',
		createdAtMs: 0,
		finishReason: null,
		receipt: null,
		...changes,
	};
}

export function rowOf(changes: Partial<RowStatus> = {}): RowStatus {
	return {
		requestId: 'r1',
		conversationId: '1',
		phase: 'decoding',
		ahead: 0,
		prefillDoneTokens: 40,
		promptTokens: 40,
		cachedTokens: 0,
		answerTokens: 9,
		kvCacheTokens: 49,
		contextTokens: 2048,
		gate: { path: 'fused', reasons: [], causedByConversationId: null, sinceStep: 3 },
		perRowMs: null,
		decodeTokS: 33.25,
		ttftMs: 150,
		itlMsP50: 30,
		itlMsP95: 40,
		...changes,
	};
}

export function statusOf(changes: Partial<EngineStatus> = {}): EngineStatus {
	return {
		phase: { kind: 'ready' },
		model: null,
		gateMode: 'split',
		overlap: 'adaptive',
		rows: [],
		steps: {
			totalTokS: 0,
			batchRows: 0,
			decodeSteps: 0,
			fusedSteps: 0,
			perRowSteps: 0,
			stepMsP50: 0,
			forwardMsP50: 0,
			sampleMsP50: 0,
			waitMsP50: 0,
			hostMsP50: 0,
			evalsPerStep: 0,
			waitsPerStep: 0,
			hostReadsPerStep: 0,
			replays: 0,
			overlapOff: null,
			overlappedSteps: 0,
			forwardsOverlapped: 0,
			submitMsP50: 0,
			batchReasons: [],
			recent: [],
		},
		memory: null,
		...changes,
	};
}
