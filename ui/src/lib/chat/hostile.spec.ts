import { expect, it } from 'vitest';
import { hostileMarkup, hostileSizes } from '../testing/hostile';
import { MarkdownStream, markdownBlocks } from './markdown';

const allowedTags = new Set(
	'p br hr h3 h4 h5 h6 ul ol li blockquote pre code span div strong em del a button table thead tbody tr th td'.split(
		' ',
	),
);

function expectHarmless(html: string) {
	const root = document.createElement('div');
	root.innerHTML = html;
	for (const element of root.querySelectorAll('*')) {
		expect(allowedTags).toContain(element.localName);
		for (const { name, value } of element.attributes) {
			expect(name).toMatch(/^(class|start|role|tabindex|type|title|data-[a-z-]+)$/);
			if (name === 'data-url') expect(value).toMatch(/^(https?:|mailto:)/i);
		}
	}
}

it.each(Object.entries(hostileMarkup))('makes nothing of %s, whole or in pieces', (_, text) => {
	const whole = markdownBlocks(text)
		.map(({ html }) => html)
		.join('');
	expectHarmless(whole);
	const stream = new MarkdownStream();
	const step = Math.max(5, Math.ceil(text.length / 15));
	for (let end = step; end < text.length + step; end += step) {
		for (const { html } of stream.update(text.slice(0, end), 'growing')) expectHarmless(html);
	}
	expect(
		stream
			.update(text, 'finished')
			.map(({ html }) => html)
			.join(''),
	).toBe(whole);
});

it.each(Object.entries(hostileSizes))('parses %s in good time', (_, text) => {
	// Parses all of it and renders one block: this is what the window waits for. jsdom, on a busy machine.
	const startMs = performance.now();
	const blocks = new MarkdownStream().update(text, 'finished', 0);
	expect(performance.now() - startMs).toBeLessThan(10_000);
	if (/[a-z]{3}/.test(text)) expect(blocks.length).toBeGreaterThan(0);
});
