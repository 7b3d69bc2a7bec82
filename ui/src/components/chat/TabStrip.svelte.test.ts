import { render, screen, within } from '@testing-library/svelte';
import userEvent from '@testing-library/user-event';
import { beforeEach, expect, it, vi } from 'vitest';
import type { TabItem } from '../../lib/chat/tabItem';
import TabStrip from './TabStrip.svelte';

const idle = { kind: 'idle', label: 'Idle', progress: null } as const;
const answering = { kind: 'decoding', label: 'Answering', progress: null } as const;
const tabs = [
	{
		id: '1',
		title: 'Fused tab',
		phase: answering,
		mark: { kind: 'fused', label: 'fused', explanation: 'Shared step.' },
	},
	{
		id: '2',
		title: 'Own tab',
		phase: answering,
		mark: {
			kind: 'perRow',
			label: 'per row: logprobs',
			explanation: 'On its own because logprobs are recorded.',
		},
	},
	{
		id: '3',
		title: 'Slowed tab',
		phase: answering,
		mark: { kind: 'slowed', label: 'slowed by “Own tab”', explanation: 'Because of the tab “Own tab”.' },
	},
	{
		id: '4',
		title: 'Reading tab',
		phase: { kind: 'prefilling', label: 'Reading 40 %', progress: 0.4 },
		mark: null,
	},
	{ id: '5', title: 'Quiet tab', phase: idle, mark: null },
].map((tab) => ({ isUnread: false, ...tab })) as TabItem[];

const scrolledTo = vi.fn();

beforeEach(() => {
	scrolledTo.mockClear();
	// jsdom draws nothing, so it has none.
	Element.prototype.scrollIntoView = function (this: Element) {
		scrolledTo(this.id);
	};
});

function strip() {
	const calls = { onshow: vi.fn(), onclose: vi.fn(), onnew: vi.fn() };
	render(TabStrip, { tabs, activeId: '1', ...calls });
	return calls;
}

const tab = (name: RegExp) => screen.getByRole('tab', { name });

it('marks each path with its own shape, and says it to those who do not see it', () => {
	strip();
	const kindOf = (name: RegExp) => within(tab(name)).getByTestId('path-mark').dataset['kind'];
	expect(kindOf(/Fused tab.*fused/)).toBe('fused');
	expect(kindOf(/^Own tab.*per row: logprobs/)).toBe('perRow');
	expect(kindOf(/Slowed tab.*slowed by “Own tab”/)).toBe('slowed');
	expect(within(tab(/Quiet tab/)).queryByTestId('path-mark')).toBeNull();
});

it('brings the tab that is shown into sight', async () => {
	const calls = { onshow: vi.fn(), onclose: vi.fn(), onnew: vi.fn() };
	const { rerender } = render(TabStrip, { tabs, activeId: '1', ...calls });
	await rerender({ activeId: '5' });
	expect(scrolledTo).toHaveBeenLastCalledWith('tab-5');
});

it('says how much of the prompt was read', () => {
	strip();
	expect(tab(/Reading tab.*Reading 40 %/).textContent).toContain('40 %');
});

it('explains the path and names the cause when a tab has the focus', async () => {
	strip();
	const user = userEvent.setup();
	await user.hover(tab(/Slowed tab/));
	expect((await screen.findByRole('tooltip')).textContent).toContain('Because of the tab “Own tab”.');
});

it('is one stop in the tab order, and arrows move inside it', async () => {
	const { onshow } = strip();
	const user = userEvent.setup();
	expect(screen.getAllByRole('tab').map((each) => each.tabIndex)).toEqual([0, -1, -1, -1, -1]);
	tab(/Fused/).focus();
	await user.keyboard('{ArrowRight}{ArrowLeft}{End}{Home}');
	expect(onshow.mock.calls).toEqual([['2'], ['1'], ['5'], ['1']]);
});

it('closes with the middle button, the Delete key and the cross', async () => {
	const { onclose, onshow } = strip();
	const user = userEvent.setup();
	await user.pointer({ keys: '[MouseMiddle]', target: tab(/^Own/) });
	tab(/Fused/).focus();
	await user.keyboard('{Delete}');
	await user.click(screen.getAllByTestId('close-tab')[2] as HTMLElement);
	expect(onclose.mock.calls).toEqual([['2'], ['1'], ['3']]);
	expect(onshow).not.toHaveBeenCalled();
});
