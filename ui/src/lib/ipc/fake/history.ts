import type {
	AppSettings,
	AttachmentView,
	ConversationSummary,
	MessageView,
	SamplingSettings,
	ScrollPlace,
	TokenDetail,
} from '../wire';
import { answers } from './answers';
import { longConversation } from './longTexts';
import type { Scenario } from './scenarios';

/** One conversation as it is stored. */
export interface Stored {
	summary: ConversationSummary;
	/** Every version of every message, oldest first. */
	tree: MessageView[];
	/** Last message of the path that is shown. */
	leafId: string | null;
	/** What was recorded of the tokens, by message. */
	details: Record<string, TokenDetail[]>;
	draft: string;
	draftAttachments: AttachmentView[];
	scroll: ScrollPlace | null;
	settings: SamplingSettings;
	isDeleted: boolean;
}

interface Saved {
	nextId: number;
	settings: AppSettings;
	conversations: Stored[];
	/** Texts of attachments, by id. */
	attached: Record<string, string>;
}

const storageKey = 'braid-scripted-history';

/** Conversations and settings that outlive a reload, as the database outlives the app. */
export class ScriptedHistory {
	nextId: number;
	settings: AppSettings;
	conversations: Stored[];
	attached: Record<string, string>;
	interruptedAnswers = 0;
	#isKept: boolean;

	constructor(scenario: Scenario) {
		this.#isKept = scenario.isKept;
		const kept = sessionStorage.getItem(storageKey);
		const saved = kept === null ? firstStart(scenario) : (JSON.parse(kept) as Saved);
		this.nextId = saved.nextId;
		this.settings = saved.settings;
		this.conversations = saved.conversations;
		this.attached = saved.attached;
		this.#markInterrupted();
		this.save();
	}

	save() {
		if (!this.#isKept) return;
		const { nextId, settings, conversations, attached } = this;
		sessionStorage.setItem(storageKey, JSON.stringify({ nextId, settings, conversations, attached }));
	}

	add(): Stored {
		const stored = emptyConversation(String(this.nextId++), this.settings.newConversation);
		this.conversations.push(stored);
		this.save();
		return stored;
	}

	find(id: string): Stored | null {
		return this.conversations.find((stored) => stored.summary.id === id && !stored.isDeleted) ?? null;
	}

	list(): ConversationSummary[] {
		return this.conversations
			.filter((stored) => !stored.isDeleted)
			.map((stored) => stored.summary)
			.sort((a, b) => b.updatedAtMs - a.updatedAtMs);
	}

	#markInterrupted() {
		for (const stored of this.conversations) {
			stored.tree = stored.tree.map((message) => {
				if (message.state !== 'streaming') return message;
				this.interruptedAnswers += 1;
				return { ...message, state: 'interrupted', finishReason: 'interrupted' };
			});
		}
	}
}

/** The shown path, root first, each message with the versions at its place. */
export function pathOf({ tree, leafId }: Stored): MessageView[] {
	const byId = new Map(tree.map((message) => [message.id, message]));
	const versions = new Map<string | null, string[]>();
	for (const { id, parentId } of tree) versions.set(parentId, [...(versions.get(parentId) ?? []), id]);
	const path: MessageView[] = [];
	let at = byId.get(leafId ?? '');
	while (at !== undefined) {
		path.push({ ...at, versionIds: versions.get(at.parentId) ?? [] });
		at = byId.get(at.parentId ?? '');
	}
	return path.reverse();
}

/** The newest message below `id`. */
export function newestBelow({ tree }: Stored, id: string): string {
	const child = tree.filter((message) => message.parentId === id).pop();
	return child === undefined ? id : newestBelow({ tree } as Stored, child.id);
}

const newConversation: SamplingSettings = {
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
};

function emptyConversation(id: string, settings: SamplingSettings): Stored {
	return {
		summary: { id, title: '', preview: '', messageCount: 0, updatedAtMs: Date.now(), isPinned: false },
		tree: [],
		leafId: null,
		details: {},
		draft: '',
		draftAttachments: [],
		scroll: null,
		settings,
		isDeleted: false,
	};
}

const titles = ['Capital of France', 'How rainbows form', 'Counting words in Rust', 'Tea or coffee?'];

function firstStart(scenario: Scenario): Saved {
	const conversations =
		scenario.history === 'empty' ? [] : titles.map((title, i) => storedConversation(i, title));
	const first = conversations[0];
	if (scenario.history === 'interrupted' && first) {
		first.tree = withTurn('Tell me about Paris', answers[0]?.slice(0, 140) ?? '', 'streaming');
		first.leafId = '102';
	}
	if (scenario.history === 'long' && first) {
		first.tree = longConversation(400, 1_000_000);
		first.leafId = first.tree[first.tree.length - 1]?.id ?? null;
	}
	// The long one is opened by hand, so that its opening can be timed.
	const openTabs = conversations
		.map((stored) => stored.summary.id)
		.filter((id) => scenario.history !== 'long' || id !== '1');
	return {
		nextId: 10,
		settings: {
			theme: 'system',
			textSizePercent: 100,
			gateMode: 'split',
			overlap: 'adaptive',
			isOverlayOpen: false,
			isSidebarOpen: true,
			openTabs,
			activeTab: openTabs[0] ?? null,
			newConversation,
			presets: [],
			language: null,
			unread: [],
			hasSeenWelcome: !scenario.isFirstStart,
		},
		conversations,
		attached: {},
	};
}

function storedConversation(index: number, title: string): Stored {
	const stored = emptyConversation(String(index + 1), newConversation);
	stored.summary = { ...stored.summary, title, updatedAtMs: Date.now() - index * 5_400_000 };
	return stored;
}

function withTurn(question: string, answer: string, state: MessageView['state']): MessageView[] {
	const shared = {
		createdAtMs: Date.now(),
		finishReason: null,
		receipt: null,
		versionIds: [],
		thinking: '',
		thinkingTokens: 0,
		attachments: [],
	};
	return [
		{ ...shared, id: '101', parentId: null, role: 'user', text: question, state: 'complete' },
		{ ...shared, id: '102', parentId: '101', role: 'assistant', text: answer, state },
	];
}
