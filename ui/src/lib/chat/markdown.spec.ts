import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { answers } from '../ipc/fake/answers';
import { decorate } from './decorate';
import { MarkdownStream, markdownBlocks } from './markdown';

const html = (text: string) =>
	markdownBlocks(text)
		.map((block) => block.html)
		.join('');

function dom(text: string): HTMLElement {
	const element = document.createElement('div');
	element.innerHTML = html(text);
	return element;
}

const hostile = [
	'<script>alert(1)</script>',
	'<img src=x onerror=alert(1)>',
	'<iframe src="https://example.test"></iframe>',
	'<a href="javascript:alert(1)">go</a>',
	'[go](javascript:alert(1))',
	'[go](data:text/html,<script>alert(1)</script>)',
	'[go](vbscript:x "t")',
	'![x](https://example.test/track.png)',
	'<svg><script>alert(1)</script></svg>',
	'<style>*{display:none}</style>',
	'<form action="https://example.test"><input name=a></form>',
	'```"><img src=x onerror=alert(1)>\ncode\n```',
	'`<b onclick=alert(1)>`',
	'<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>',
	'[a]: https://example.test "\'><img src=x onerror=alert(1)>"\n\n[a]',
	'<div style="position:fixed;inset:0">over everything</div>',
	'| a |\n| --- |\n| <img src=x onerror=alert(1)> |',
	'<br><base href="https://example.test"><meta http-equiv=refresh content=0>',
];

describe('markdown', () => {
	it.each(hostile)('makes nothing of %s that runs, loads, navigates or covers', (text) => {
		const root = dom(text);
		expect(
			root.querySelector('script,img,iframe,style,form,input,svg,math,object,base,meta,link'),
		).toBeNull();
		for (const element of root.querySelectorAll('*')) {
			for (const { name, value } of element.attributes) {
				expect(name).not.toMatch(/^on|^style$|^href$|^src/);
				expect(value).not.toMatch(/^(javascript|vbscript|data):/i);
			}
		}
	});

	it('is as safe for any mix of hostile pieces, whole or while it grows', () => {
		fc.assert(
			fc.property(fc.array(fc.constantFrom(...hostile, '\n\n', '`', '**', '<', '](', '|')), (pieces) => {
				const text = pieces.join('');
				const root = document.createElement('div');
				const grown = new MarkdownStream().update(text, 'growing');
				root.innerHTML = html(text) + grown.map((block) => block.html).join('');
				expect(root.querySelector('script,img,iframe,style,form,input,svg,[href],[src],[style]')).toBeNull();
			}),
			{ numRuns: 40 },
		);
	});

	it('shows the tags that the model wrote', () => {
		expect(dom('Use <div> for a block.').textContent).toContain('Use <div> for a block.');
	});

	it('keeps the address of a link where it can be read, and nowhere else', () => {
		const link = dom('[Braid](https://example.test/a?b=1&c=2)').querySelector('a');
		expect(link?.hasAttribute('href')).toBe(false);
		expect(link?.dataset['url']).toBe('https://example.test/a?b=1&c=2');
	});

	it('names an image instead of fetching it', () => {
		const root = dom('![a cat](https://example.test/cat.png)');
		decorate(root, { isWrapped: false });
		expect(root.textContent).toContain('Image, not loaded: a cat');
	});

	it('leaves prices alone', () => {
		expect(dom('From $5 to $10 a month.').textContent?.trim()).toBe('From $5 to $10 a month.');
	});

	it('colours code of a known language and escapes all of it', () => {
		const code = dom('```rust\nlet a: Vec<u8> = vec![];\n```').querySelector('code');
		expect(code?.textContent).toBe('let a: Vec<u8> = vec![];');
		expect(code?.querySelector('.hljs-keyword')?.textContent).toBe('let');
	});

	it('highlights no language that it does not know', () => {
		expect(dom('```klingon\nqapla\n```').querySelector('code')?.innerHTML).toBe('qapla');
	});
});

describe('MarkdownStream', () => {
	const texts = [...answers, 'a\n\n- b\n\n- c\n\n1. d\n2. e\n\n> f\n> g\n\n# h\n\n---\n\ni', ...hostile];

	it('ends with what parsing the whole text gives, however it arrived', () => {
		fc.assert(
			fc.property(
				fc.constantFrom(...texts),
				fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1 }),
				(text, sizes) => {
					const stream = new MarkdownStream();
					for (let at = 0, i = 0; at < text.length; i += 1) {
						at += sizes[i % sizes.length] ?? 1;
						stream.update(text.slice(0, at), 'growing');
					}
					expect(stream.update(text, 'finished').map((block) => block.html)).toEqual(
						markdownBlocks(text).map((block) => block.html),
					);
				},
			),
			{ numRuns: 60 },
		);
	});

	it('finishes blocks with the very HTML that the whole text has for them', () => {
		for (const text of answers) {
			const whole = markdownBlocks(text);
			const stream = new MarkdownStream();
			for (let at = 1; at <= text.length; at += 3) {
				const blocks = stream.update(text.slice(0, at), 'growing');
				for (const [i, block] of blocks.slice(0, -3).entries()) expect(block.html).toBe(whole[i]?.html);
			}
		}
	});

	it('renders a finished block once', () => {
		const stream = new MarkdownStream();
		const before = stream.update('one\n\ntwo\n\nthree\n\nfour', 'growing');
		const after = stream.update('one\n\ntwo\n\nthree\n\nfour and more', 'growing');
		expect(after[0]).toBe(before[0]);
		expect(after[1]).toBe(before[1]);
	});

	it('starts over when the text is another one', () => {
		const stream = new MarkdownStream();
		stream.update('one\n\ntwo\n\nthree\n\nfour', 'growing');
		expect(stream.update('other', 'growing').map((block) => block.html)).toEqual(['<p>other</p>\n']);
	});

	it('draws a long answer over several calls, its end first, and shows all of its text meanwhile', () => {
		const text = Array.from({ length: 40 }, (_, i) => `Block **${i}**`).join('\n\n');
		const stream = new MarkdownStream();
		const first = stream.update(text, 'finished', 0);
		expect(first).toHaveLength(40);
		expect(first[39]?.html).toBe('<p>Block <strong>39</strong></p>\n');
		expect(first[0]?.html).toContain('Block **0**');
		let calls = 1;
		for (; stream.isBehind; calls += 1) stream.update(text, 'finished', 0);
		expect(calls).toBe(40);
		expect(stream.update(text, 'finished', 0)).toEqual(markdownBlocks(text));
	});

	it('does not render again what was finished before the answer ended', () => {
		const text = Array.from({ length: 12 }, (_, i) => `Block **${i}**`).join('\n\n');
		const stream = new MarkdownStream();
		const before = stream.update(text, 'growing');
		const after = stream.update(text, 'finished', 0);
		expect(after.slice(0, 10).every((block, i) => block === before[i])).toBe(true);
	});

	it('gives links their address when it is defined after their use', () => {
		const stream = new MarkdownStream();
		const text = 'See [the page][1].\n\nmore\n\nand more\n\nend\n\n[1]: https://example.test/';
		stream.update(text.slice(0, 50), 'growing');
		expect(stream.update(text, 'finished')[0]?.html).toContain('data-url="https://example.test/"');
	});

	it('lets the window rest after a drawing that took long', () => {
		const clock = vi.spyOn(performance, 'now');
		const stream = new MarkdownStream();
		clock.mockReturnValueOnce(1000).mockReturnValue(1040);
		const drawn = stream.update('a long tail', 'growing', 6);
		expect(stream.update('a long tail that grows', 'growing', 6)).toBe(drawn);
		expect(stream.isBehind).toBe(true);
		clock.mockReturnValue(1200);
		expect(stream.update('a long tail that grows', 'growing', 6)[0]?.html).toContain('that grows');
		expect(stream.isBehind).toBe(false);
	});
});
