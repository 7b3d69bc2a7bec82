import type {
	DownloadStatus,
	EngineStatus,
	FitReport,
	MessageView,
	ModelEntry,
	ModelsStatus,
	Receipt,
	RowStatus,
	SamplingSettings,
} from '../ipc/wire';

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
		wantsThinking: null,
		remote: null,
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
		attachments: [],
		...changes,
	};
}

export function rowOf(changes: Partial<RowStatus> = {}): RowStatus {
	return {
		requestId: 'r1',
		source: 'tab',
		conversationId: '1',
		answerId: '2',
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
		modeEffects: [],
		...changes,
	};
}

export function modelOf(changes: Partial<ModelEntry> = {}): ModelEntry {
	return {
		modelId: 'a',
		name: 'Model A',
		path: '/models/a',
		origin: { kind: 'own' },
		diskBytes: 1_073_741_824,
		architecture: 'llama',
		quantisation: '4-bit',
		contextTokens: 8192,
		licence: 'mit',
		problem: null,
		isDeletable: true,
		...changes,
	};
}

export function modelsStatusOf(changes: Partial<ModelsStatus> = {}): ModelsStatus {
	return {
		listRevision: 1,
		loadedModelId: null,
		loadedContextTokens: null,
		load: null,
		loadFailure: null,
		downloads: [],
		imports: [],
		...changes,
	};
}

export function downloadOf(changes: Partial<DownloadStatus> = {}): DownloadStatus {
	return {
		downloadId: 'd1',
		repo: 'owner/model',
		phase: { kind: 'running' },
		doneBytes: 268_435_456,
		totalBytes: 1_073_741_824,
		bytesPerS: 10_485_760,
		leftMs: 76_800,
		doneFiles: 2,
		files: 5,
		...changes,
	};
}

export function fitReportOf(changes: Partial<FitReport> = {}): FitReport {
	const gib = 1_073_741_824;
	return {
		weightsBytes: 2 * gib,
		kvCacheBytesPerTab: 0.5 * gib,
		tabs: 4,
		contextTokens: 8192,
		modelContextTokens: 8192,
		workspaceBytes: 0.25 * gib,
		reserveBytes: 1.5 * gib,
		neededBytes: 5.75 * gib,
		freeBytes: 9 * gib,
		totalBytes: 16 * gib,
		memoryKind: 'unified',
		verdict: 'fits',
		offeredContextTokens: null,
		replacesFirst: false,
		...changes,
	};
}
