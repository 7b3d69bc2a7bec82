import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { longConversation } from '../ipc/fake/longTexts';
import { NearbyMessages } from './nearby.svelte';

let frames: (() => void)[] = [];

beforeEach(() => {
	frames = [];
	vi.stubGlobal(
		'ResizeObserver',
		class {
			observe() {}
			disconnect() {}
		},
	);
	vi.stubGlobal('requestAnimationFrame', (work: () => void) => frames.push(work));
	vi.stubGlobal('cancelAnimationFrame', () => {});
});

afterEach(() => vi.unstubAllGlobals());

const long = longConversation(100, 250_000);

it('draws a short conversation at once', () => {
	const nearby = new NearbyMessages(long.slice(0, 6), null);
	expect(long.slice(0, 6).every(({ id }) => nearby.isDrawn(id))).toBe(true);
});

it('draws the end of a long conversation first, and what comes later', () => {
	const nearby = new NearbyMessages(long, null);
	const drawn = long.filter(({ id }) => nearby.isDrawn(id)).map(({ id }) => id);
	expect(drawn.length).toBeLessThan(12);
	expect(drawn).toEqual(long.slice(-drawn.length).map(({ id }) => id));
	expect(nearby.isDrawn('a message that was just sent')).toBe(true);
});

it('draws what surrounds the message that the reader was at', () => {
	const nearby = new NearbyMessages(long, long[40]?.id ?? null);
	for (const at of [38, 39, 40, 41, 42]) expect(nearby.isDrawn(long[at]?.id ?? '')).toBe(true);
	expect(nearby.isDrawn(long[99]?.id ?? '')).toBe(false);
});

it('draws what is in sight before the frame, and what is near one message a frame', () => {
	const nearby = new NearbyMessages(long, null);
	const viewport = document.createElement('div');
	const content = viewport.appendChild(document.createElement('div'));
	viewport.getBoundingClientRect = () => new DOMRect(0, 0, 100, 500);
	let scrolled = 0;
	for (const [i, { id }] of long.entries()) {
		const element = content.appendChild(document.createElement('article'));
		Object.assign(element.dataset, { messageId: id, undrawn: '' });
		element.getBoundingClientRect = () => new DOMRect(0, i * 250 - scrolled, 100, 250);
	}
	nearby.attach(viewport);
	scrolled = 2500;
	viewport.dispatchEvent(new Event('scroll'));
	const drawn = () => long.slice(0, 40).filter(({ id }) => nearby.isDrawn(id)).length;
	expect(drawn(), 'two in sight, two at the edges').toBe(4);
	expect(content.children[30]?.hasAttribute('data-far')).toBe(false);
	frames.pop()?.();
	expect(drawn()).toBe(5);
	expect(content.children[30]?.hasAttribute('data-far')).toBe(true);
});
