import { describe, expect, it } from 'vitest';
import { answers } from '../ipc/fake/answers';
import { closeHalfTyped } from './closeHalfTyped';
import { MarkdownStream } from './markdown';

function shown(stream: MarkdownStream, text: string): string {
	const element = document.createElement('div');
	element.innerHTML = stream
		.update(text, 'growing')
		.map((block) => block.html)
		.join('');
	for (const code of element.querySelectorAll('.code')) code.remove();
	return (element.textContent ?? '').trim();
}

describe('closeHalfTyped', () => {
	it.each([
		['a **bold', 'a **bold**'],
		['a **bold*', 'a **bold**'],
		['a **', 'a '],
		['a *', 'a '],
		['a *word', 'a *word*'],
		['***both', '***both***'],
		['~~gone', '~~gone~~'],
		['snake_case_name', 'snake_case_name'],
		['2 * 3 is', '2 * 3 is'],
		['a `code', 'a `code`'],
		['a `', 'a '],
		['``a ` b', '``a ` b``'],
		['see [text](https://ex', 'see text'],
		['see ![alt](https://ex', 'see '],
		['done **bold** and', 'done **bold** and'],
		['- item **bo', '- item **bo**'],
		['text\n-', 'text\n'],
		['text\n--', 'text\n'],
		['text\n===', 'text\n'],
		['# ', ''],
		['`*not emphasis', '`*not emphasis`'],
	])('draws %j as %j', (typed, drawn) => {
		expect(closeHalfTyped(typed)).toBe(drawn);
	});

	it('leaves an open code fence to the parser and hides half of its end', () => {
		expect(closeHalfTyped('```js\nlet a = `x')).toBe('```js\nlet a = `x');
		expect(closeHalfTyped('```js\nlet a\n``')).toBe('```js\nlet a\n');
	});

	it('makes a table of a header row at once', () => {
		expect(closeHalfTyped('| a | b |')).toBe('| a | b |\n| --- | --- |');
		expect(closeHalfTyped('| a | b |\n| -')).toBe('| a | b |\n| --- | --- |');
	});

	it('never shows a raw marker of the sample answers, wherever they stop', () => {
		for (const text of answers) {
			const stream = new MarkdownStream();
			for (let end = 1; end <= text.length; end += 2) {
				const seen = shown(stream, text.slice(0, end));
				expect(seen, JSON.stringify(text.slice(Math.max(0, end - 40), end))).not.toMatch(/\*\*|~~|`|^#|\|/m);
			}
		}
	});
});
