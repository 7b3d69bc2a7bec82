// @vitest-environment node
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { GatePath, StreamEvent, StreamEventBody, TextPart } from '../ipc/wire';
import { answerMessage, receiptOf } from '../testing/samples';
import { applyStreamEvents, newAnswer, type Answer } from './applyStreamEvents';

const start = () => newAnswer('r1', answerMessage());

function numbered(bodies: readonly StreamEventBody[], requestId = 'r1'): StreamEvent[] {
	return bodies.map((body, sequence) => ({ requestId, sequence, body }));
}

const text = (delta: string, answerTokens: number, part: TextPart = 'answer'): StreamEventBody => ({
	kind: 'text',
	part,
	delta,
	answerTokens,
	thinkingTokens: 0,
});
const gate: GatePath = { path: 'perRow', reasons: ['logprobs'], causedByConversationId: null, sinceStep: 4 };
const body: fc.Arbitrary<StreamEventBody> = fc.oneof(
	fc.record({ kind: fc.constant('queued' as const), ahead: fc.nat(5) }),
	fc.record({
		kind: fc.constant('prefilling' as const),
		doneTokens: fc.nat(40),
		totalTokens: fc.constant(40),
	}),
	fc.record({
		kind: fc.constant('text' as const),
		part: fc.constantFrom('answer', 'thinking'),
		delta: fc.string({ unit: 'grapheme', maxLength: 6 }),
		answerTokens: fc.nat(),
		thinkingTokens: fc.nat(),
	}),
	fc.constant({ kind: 'path' as const, path: gate }),
);
const last: fc.Arbitrary<StreamEventBody> = fc.oneof(
	fc.record({
		kind: fc.constant('finished' as const),
		reason: fc.constantFrom('endOfTurn', 'stopped', 'maxTokens', 'contextFull', 'incomplete'),
		receipt: fc.constant(receiptOf()),
	}),
	fc.record({
		kind: fc.constant('failed' as const),
		code: fc.constantFrom('badLogits', 'engineFailed'),
		detail: fc.string(),
		receipt: fc.constant(receiptOf()),
	}),
);
const stream = fc
	.tuple(fc.array(body, { maxLength: 30 }), fc.option(last))
	.map(([bodies, end]) => numbered(end ? [...bodies, end] : bodies));

function frames(events: StreamEvent[], cuts: readonly number[]): StreamEvent[][] {
	const at = [0, ...cuts.map((cut) => cut % (events.length + 1)).sort((a, b) => a - b), events.length];
	return at.slice(1).map((end, i) => events.slice(at[i], end));
}

describe('applyStreamEvents', () => {
	it('gives the same answer for every split into frames, and text never gets shorter', () => {
		fc.assert(
			fc.property(stream, fc.array(fc.nat(), { maxLength: 12 }), (events, cuts) => {
				const whole = applyStreamEvents(start(), events);
				let split: Answer = start();
				for (const frame of frames(events, cuts)) {
					const before = split.message;
					split = applyStreamEvents(split, frame);
					expect(split.message.text.startsWith(before.text)).toBe(true);
					expect(split.message.thinking.startsWith(before.thinking)).toBe(true);
				}
				expect(split).toEqual(whole);
			}),
		);
	});

	it('drops events seen before', () => {
		fc.assert(
			fc.property(stream, fc.nat(), (events, from) => {
				const once = applyStreamEvents(start(), events);
				const twice = applyStreamEvents(once, events.slice(from % (events.length + 1)));
				expect(twice).toEqual(once);
			}),
		);
	});

	it('drops events of another request', () => {
		const other = numbered([text('not mine', 1)], 'r2');
		expect(applyStreamEvents(start(), other)).toEqual(start());
	});

	it('keeps the text when the answer fails, and says why', () => {
		const answer = applyStreamEvents(
			start(),
			numbered([
				text('Paris is', 2),
				{ kind: 'failed', code: 'badLogits', detail: 'row 0', receipt: receiptOf() },
				text(' late', 3),
			]),
		);
		expect(answer.message.text).toBe('Paris is');
		expect(answer.message.state).toBe('failed');
		expect(answer.failure).toEqual({ code: 'badLogits', detail: 'row 0' });
	});

	it('keeps thinking apart from the answer, and says which of them is being written', () => {
		const thinking = applyStreamEvents(start(), numbered([text('Hm, ', 0, 'thinking')]));
		expect(thinking.phase).toEqual({ kind: 'thinking' });
		const bodies = [text('Hm, ', 0, 'thinking'), text('Paris?', 0, 'thinking'), text('Paris.', 1)];
		const answered = applyStreamEvents(start(), numbered(bodies));
		expect(answered.phase).toEqual({ kind: 'decoding' });
		expect(answered.message).toMatchObject({ thinking: 'Hm, Paris?', text: 'Paris.' });
	});

	it('notices a lost event', () => {
		const [first, , third] = numbered([text('a', 1), text('b', 2), text('c', 3)]);
		const answer = applyStreamEvents(start(), [first as StreamEvent, third as StreamEvent]);
		expect(answer.hasGap).toBe(true);
	});
});
