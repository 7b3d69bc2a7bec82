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
	for (let end = 7; end < text.length + 7; end += 7) {
		for (const { html } of stream.update(text.slice(0, end), 'growing')) expectHarmless(html);
	}
	expect(
		stream
			.update(text, 'finished')
			.map(({ html }) => html)
			.join(''),
	).toBe(whole);
});

it.each(Object.entries(hostileSizes))('parses %s in good time, and shows its text', (_, text) => {
	const stream = new MarkdownStream();
	// The first call parses everything and renders one block: what the window waits for. jsdom, on a busy machine.
	const startMs = performance.now();
	const growing = stream.update(text, 'growing', 0);
	const finished = stream.update(text, 'finished', 0);
	expect(performance.now() - startMs).toBeLessThan(15_000);
	const letters = (html: string) => html.replace(/<[^>]*>/g, '').length;
	if (/[a-z]{3}/.test(text))
		expect(letters([...growing, ...finished].map(({ html }) => html).join(''))).toBeGreaterThan(0);
});
