import { tick } from 'svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import { ScrollKeeper } from './scroll.svelte';

let resize: () => void;

beforeEach(() => {
	vi.stubGlobal(
		'ResizeObserver',
		class {
			constructor(callback: () => void) {
				resize = callback;
			}
			observe() {}
			disconnect() {}
		},
	);
});

/** A viewport of 100 pixels on content that can grow. */
function viewportOf(contentPx: number) {
	const viewport = document.createElement('div');
	viewport.append(document.createElement('div'));
	let height = contentPx;
	let top = 0;
	Object.defineProperties(viewport, {
		clientHeight: { value: 100 },
		scrollHeight: { get: () => height },
		scrollTop: { get: () => top, set: (to: number) => (top = Math.max(0, Math.min(to, height - 100))) },
	});
	const scrolled = () => viewport.dispatchEvent(new Event('scroll'));
	return {
		viewport,
		scrolled,
		grow(px: number) {
			height += px;
			resize();
		},
		readerScrolls(px: number) {
			viewport.dispatchEvent(new WheelEvent('wheel', { deltaY: px }));
			viewport.scrollTop += px;
			scrolled();
		},
	};
}

it('stays at the end while text grows', () => {
	const { viewport, grow } = viewportOf(300);
	new ScrollKeeper().attach(viewport);
	expect(viewport.scrollTop).toBe(200);
	grow(80);
	expect(viewport.scrollTop).toBe(280);
});

it('does not follow while a message in it is edited', () => {
	const { viewport, grow } = viewportOf(300);
	const field = document.createElement('textarea');
	viewport.append(field);
	document.body.append(viewport);
	new ScrollKeeper().attach(viewport);
	field.focus();
	grow(80);
	expect(viewport.scrollTop).toBe(200);
	field.blur();
	grow(20);
	expect(viewport.scrollTop).toBe(300);
	viewport.remove();
});

it('leaves the reader alone, and follows again once they are back at the end', () => {
	const { viewport, grow, readerScrolls } = viewportOf(300);
	const keeper = new ScrollKeeper();
	keeper.attach(viewport);
	readerScrolls(-60);
	grow(80);
	expect(viewport.scrollTop).toBe(140);
	expect(keeper.isFollowing).toBe(false);
	readerScrolls(140);
	grow(80);
	expect(viewport.scrollTop).toBe(360);
});

it('takes the late event of its own scrolling for nobody’s wish', () => {
	const { viewport, grow, scrolled } = viewportOf(300);
	const keeper = new ScrollKeeper();
	keeper.attach(viewport);
	grow(80);
	viewport.dispatchEvent(new WheelEvent('wheel', { deltaY: -60 }));
	scrolled();
	expect(keeper.isFollowing).toBe(false);
});

it('keeps the place while another tab is shown', () => {
	const { viewport, readerScrolls } = viewportOf(400);
	const keeper = new ScrollKeeper();
	const detach = keeper.attach(viewport);
	readerScrolls(-200);
	detach();
	viewport.scrollTop = 0;
	keeper.attach(viewport);
	expect(viewport.scrollTop).toBe(100);
});

it('goes to a message and keeps it in place while the list takes its shape, until the reader moves', async () => {
	const { viewport, grow, readerScrolls } = viewportOf(1000);
	const message = document.createElement('article');
	message.dataset['messageId'] = '7';
	viewport.firstElementChild?.append(message);
	let offsetPx = 400;
	message.getBoundingClientRect = () => new DOMRect(0, offsetPx - viewport.scrollTop, 10, 10);
	const keeper = new ScrollKeeper();
	keeper.goTo('7');
	keeper.attach(viewport);
	await tick();
	expect(viewport.scrollTop).toBe(384);
	offsetPx += 80;
	grow(80);
	expect([viewport.scrollTop, keeper.isFollowing]).toEqual([464, false]);
	readerScrolls(-60);
	offsetPx += 80;
	grow(80);
	expect(viewport.scrollTop, 'the message stays where the reader put it').toBe(484);
});

/** A message that follows the others in the viewport's content. */
class FakeMessage {
	heightPx = 200;

	constructor(viewport: HTMLElement, id: string, before: readonly FakeMessage[]) {
		const element = document.createElement('article');
		element.dataset['messageId'] = id;
		viewport.firstElementChild?.append(element);
		element.getBoundingClientRect = () => {
			const top = before.reduce((sum, { heightPx }) => sum + heightPx, 0);
			return new DOMRect(0, top - viewport.scrollTop, 10, this.heightPx);
		};
	}
}

function fiveMessages(viewport: HTMLElement): [first: FakeMessage, last: FakeMessage] {
	const messages: FakeMessage[] = [];
	for (const id of ['1', '2', '3', '4', '5']) messages.push(new FakeMessage(viewport, id, [...messages]));
	return [messages[0] as FakeMessage, messages[4] as FakeMessage];
}

it('keeps what the reader looks at in place when a message above it gets its real height', () => {
	const { viewport, grow, readerScrolls } = viewportOf(1000);
	const [first, last] = fiveMessages(viewport);
	const keeper = new ScrollKeeper();
	keeper.attach(viewport);
	readerScrolls(-350);
	expect(keeper.place()).toEqual({ messageId: '3', abovePx: 150 });
	first.heightPx += 60;
	grow(60);
	expect(viewport.scrollTop).toBe(610);
	last.heightPx += 200;
	grow(200);
	expect(viewport.scrollTop, 'what grows below moves nothing').toBe(610);
});

it('says where the reader is, and goes back there', async () => {
	const scroll = new ScrollKeeper();
	expect(scroll.place(), 'nothing is on screen').toBeUndefined();
	const viewport = document.createElement('div');
	const content = viewport.appendChild(document.createElement('div'));
	const tops = { a: -340, b: -40, c: 200 };
	for (const [id, top] of Object.entries(tops)) {
		const message = document.createElement('div');
		message.dataset['messageId'] = id;
		message.getBoundingClientRect = () => ({ top, bottom: top + 240 }) as DOMRect;
		content.append(message);
	}
	viewport.getBoundingClientRect = () => ({ top: 0 }) as DOMRect;
	scroll.attach(viewport);
	expect(scroll.place(), 'at the end').toBeNull();
	scroll.isFollowing = false;
	expect(scroll.place()).toEqual({ messageId: 'b', abovePx: 40 });
	viewport.scrollTop = 500;
	scroll.restore({ messageId: 'c', abovePx: 30 });
	await tick();
	expect(viewport.scrollTop, 'c begins 30 pixels above the top').toBe(500 + 200 + 30);
});
