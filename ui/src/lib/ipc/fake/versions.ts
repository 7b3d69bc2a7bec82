import { CommandFailure, type Backend } from '../backend';
import type { ContinueAnswer, EditMessage, FanOut, MessageView, StreamEvent, BranchAnswer } from '../wire';
import { tokensOf, type AnswerScript } from './answers';
import { newestBelow, type Stored } from './history';
import type { ScriptedParts } from './parts';
import { addTurn, emptyAnswer, noteTurn, questionOf, versioned } from './running';

type Calls = Pick<
	Backend,
	| 'editMessage'
	| 'continueAnswer'
	| 'branchAnswer'
	| 'fanOut'
	| 'keepAnswer'
	| 'writeAnswerVersion'
	| 'readVersions'
	| 'saveScroll'
>;
type Emit = (events: StreamEvent[]) => void;

export function versionCalls(parts: ScriptedParts): Calls {
	const { call, history, running, conversation, view } = parts;
	const nextId = () => String(history.nextId++);

	function add(stored: Stored, ...messages: MessageView[]) {
		stored.tree = [...stored.tree, ...messages];
		stored.leafId = messages.at(-1)?.id ?? stored.leafId;
	}

	function editMessage({ requestId, conversationId, messageId, text }: EditMessage, onEvents: Emit) {
		const stored = running.check(conversationId);
		const old = messageIn(stored, messageId);
		const question = { ...questionOf(nextId(), old.parentId, text), attachments: old.attachments };
		const answer = emptyAnswer(nextId(), question.id);
		add(stored, question, answer);
		noteTurn(stored, text);
		running.start(stored, { answer, requestId, settings: stored.settings }, onEvents);
		return { userMessage: versioned(stored, question), answer: versioned(stored, answer) };
	}

	/** The script that an answer was written from; a receipt names a seed also where none was asked for. */
	function scriptBehind(stored: Stored, answer: MessageView): AnswerScript {
		const settings = answer.receipt?.settings ?? stored.settings;
		const own = running.scriptOf(stored, settings);
		const isOwn = own.answer.join('').startsWith(answer.text);
		return isOwn ? own : running.scriptOf(stored, { ...settings, seed: null });
	}

	function continueAnswer({ requestId, conversationId, answerId }: ContinueAnswer, onEvents: Emit) {
		const stored = running.check(conversationId);
		const old = messageIn(stored, answerId);
		if (old.finishReason === 'endOfTurn')
			throw new CommandFailure('cannotContinue', 'the model ended its turn (scripted)');
		const settings = old.receipt?.settings ?? stored.settings;
		const answer: MessageView = { ...old, state: 'streaming', finishReason: null };
		delete answer.failure;
		stored.tree = stored.tree.map((message) => (message.id === answerId ? answer : message));
		const script = restOf(scriptBehind(stored, old), old);
		const details = stored.details[answerId] ?? [];
		running.start(stored, { answer, requestId, settings, script, details }, onEvents);
		return versioned(stored, answer);
	}

	function branchAnswer(request: BranchAnswer, onEvents: Emit) {
		const { requestId, conversationId, answerId, tokenIndex, token } = request;
		const stored = running.check(conversationId);
		const old = messageIn(stored, answerId);
		const details = stored.details[answerId] ?? [];
		const at = details[tokenIndex];
		const taken = at?.alternatives.find((other) => other.token === token);
		if (!at || !taken) throw new CommandFailure('cannotContinue', `no token ${token} there (scripted)`);
		const replaced = { ...at, token: taken.token, text: taken.text, logprob: taken.logprob };
		const kept = [...details.slice(0, tokenIndex), replaced];
		const thought = kept.slice(0, old.thinkingTokens);
		const answer: MessageView = {
			...emptyAnswer(nextId(), old.parentId),
			thinking: textOf(thought),
			thinkingTokens: thought.length,
			text: textOf(kept.slice(thought.length)),
		};
		add(stored, answer);
		const settings = old.receipt?.settings ?? stored.settings;
		const whole = scriptBehind(stored, old);
		const script = {
			thinking: whole.thinking.slice(kept.length),
			answer: whole.answer.slice(Math.max(0, kept.length - whole.thinking.length)),
		};
		running.start(stored, { answer, requestId, settings, script, details: kept }, onEvents);
		return versioned(stored, answer);
	}

	function fanOut({ conversationId, text, variants }: FanOut, onEvents: Emit) {
		const stored = running.check(conversationId);
		if (variants.length < 2 || variants.length > 8)
			throw new CommandFailure('invalidSetting', `variants must be 2 to 8; there are ${variants.length}`);
		const { userMessage, answers } = addTurn(stored, text, variants.length, nextId);
		stored.draft = '';
		for (const [i, { requestId, settings }] of variants.entries()) {
			const answer = answers[i];
			if (!answer) continue;
			running.start(stored, { answer, requestId, settings, sharesPrompt: i > 0 }, onEvents);
		}
		return { userMessage, answers };
	}

	function writeAnswerVersion(conversationId: string, answerId: string, text: string) {
		const stored = conversation(conversationId);
		if (text.trim() === '') throw new CommandFailure('emptyMessage', 'the answer has no text');
		const old = messageIn(stored, answerId);
		add(stored, { ...emptyAnswer(nextId(), old.parentId), text, state: 'complete' });
		return view(conversationId);
	}

	function keepAnswer(conversationId: string, answerId: string) {
		const stored = conversation(conversationId);
		running.stopIn(conversationId, answerId);
		stored.leafId = newestBelow(stored, answerId);
		return view(conversationId);
	}

	return {
		editMessage: (request, onEvents) => call(() => editMessage(request, onEvents)),
		continueAnswer: (request, onEvents) => call(() => continueAnswer(request, onEvents)),
		branchAnswer: (request, onEvents) => call(() => branchAnswer(request, onEvents)),
		fanOut: (request, onEvents) => call(() => fanOut(request, onEvents)),
		keepAnswer: (id, answerId) => call(() => keepAnswer(id, answerId)),
		writeAnswerVersion: (id, answerId, text) => call(() => writeAnswerVersion(id, answerId, text)),
		readVersions: (id, messageId) =>
			call(() => {
				const stored = conversation(id);
				const { versionIds } = versioned(stored, messageIn(stored, messageId));
				return versionIds.map((version) => running.soFar(versioned(stored, messageIn(stored, version))));
			}),
		saveScroll: (id, place) => call(() => void (conversation(id).scroll = place)),
	};
}

function messageIn({ tree }: Stored, id: string): MessageView {
	const found = tree.find((message) => message.id === id);
	if (!found) throw new CommandFailure('internal', `"${id}" names no message`);
	return found;
}

function textOf(details: readonly { text: string }[]): string {
	return details.map(({ text }) => text).join('');
}

/** What is left of a script that was written up to the end of `answer`; a sentence more if it is none of it. */
function restOf({ thinking, answer: whole }: AnswerScript, answer: MessageView): AnswerScript {
	const text = whole.join('');
	if (!text.startsWith(answer.text) || text === answer.text)
		return { thinking: [], answer: tokensOf(' And here is what was still to be said about it.') };
	const rest = answer.text === '' ? thinking.join('').slice(answer.thinking.length) : '';
	return { thinking: tokensOf(rest), answer: tokensOf(text.slice(answer.text.length)) };
}
