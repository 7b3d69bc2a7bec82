import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { StructureCheck, StructuredOutput } from '../ipc/wire';
import { placeProblem, StructureChecker } from './structureCheck.svelte';

const schema = (text: string): StructuredOutput => ({ kind: 'jsonSchema', schema: text });
const ignored = { severity: 'ignored', pointer: null, line: null, column: null, message: 'm' } as const;

describe('placeProblem', () => {
	const text = '{\n  "not": {},\n  "type": 5\n}';
	const marked = (problem: Parameters<typeof placeProblem>[0]) => {
		const { from, to } = placeProblem(problem, text);
		return text.slice(from, to);
	};

	it('marks what a pointer names, and what a line and a column name', () => {
		expect(marked({ ...ignored, pointer: '/not' })).toBe('"not"');
		expect(marked({ ...ignored, line: 3, column: 11 })).toBe('5');
		expect(placeProblem({ ...ignored, pointer: '/type' }, text).line).toBe(3);
	});

	it('knows no line when nobody does', () => {
		expect(placeProblem({ ...ignored, pointer: '/gone' }, text)).toMatchObject({
			line: null,
			from: 0,
			to: 0,
		});
	});
});

describe('StructureChecker', () => {
	beforeEach(() => void vi.useFakeTimers());
	afterEach(() => void vi.useRealTimers());

	it('checks once typing rests', async () => {
		const check = vi.fn(async () => ({ isEnforceable: true, problems: [] }));
		const checker = new StructureChecker(check);
		for (const typed of ['{', '{ ', '{ }']) checker.look(schema(typed));
		await vi.advanceTimersByTimeAsync(1000);
		expect(check.mock.calls).toEqual([[schema('{ }')]]);
		expect(checker.isEnforceable).toBe(true);
	});

	it('lets the newest check win, however long an older one takes', async () => {
		const answers: ((check: StructureCheck) => void)[] = [];
		const checker = new StructureChecker(() => new Promise((resolve) => answers.push(resolve)));
		checker.look(schema('old'));
		await vi.advanceTimersByTimeAsync(300);
		checker.look(schema('new'));
		await vi.advanceTimersByTimeAsync(300);
		answers[1]?.({ isEnforceable: true, problems: [] });
		await vi.advanceTimersByTimeAsync(0);
		answers[0]?.({ isEnforceable: false, problems: [{ ...ignored, severity: 'error' }] });
		await vi.advanceTimersByTimeAsync(0);
		expect([checker.isEnforceable, checker.problems]).toEqual([true, []]);
	});

	it('has no problems with free text', async () => {
		const checker = new StructureChecker(async () => ({ isEnforceable: false, problems: [ignored] }));
		checker.look(schema('{'));
		await vi.advanceTimersByTimeAsync(300);
		expect(checker.problems).toHaveLength(1);
		checker.look(null);
		expect(checker.problems).toEqual([]);
	});
});
