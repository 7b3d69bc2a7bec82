import { describe, expect, it } from 'vitest';
import { formulas } from '../ipc/fake/answers';
import { drawFormula } from './formula';
import { MarkdownStream, markdownBlocks, type Block } from './markdown';

function root(blocks: readonly Block[]): HTMLElement {
	const element = document.createElement('div');
	element.innerHTML = blocks.map(({ html }) => html).join('');
	return element;
}

const dom = (text: string) => root(markdownBlocks(text));
const texOf = (text: string) =>
	[...dom(text).querySelectorAll<HTMLElement>('[data-math]')].map((place) => place.dataset['math']);

describe('formulas', () => {
	it.each([
		['Euler: $e^{i\\pi} + 1 = 0$.', ['e^{i\\pi} + 1 = 0']],
		['$x$ and $y$', ['x', 'y']],
		['with $5x + 3$ terms', ['5x + 3']],
		['$2$ is even', ['2']],
		['set \\(a_1, a_2\\) here', ['a_1, a_2']],
		['$$\\int_0^1 x\\,dx$$', ['\\int_0^1 x\\,dx']],
		['so $$a = b$$ it is', ['a = b']],
		['\\[\na\n- b\n\\]', ['a\n- b']],
		['- item $a*b*c$\n- other', ['a*b*c']],
		['| f |\n| --- |\n| $x^2$ |', ['x^2']],
		['**bold $x_1$ text**', ['x_1']],
		['cost \\$5, then $x$', ['x']],
	])('%j has the formulas %j', (text, tex) => {
		expect(texOf(text)).toEqual(tex);
	});

	it.each([
		'From $5 to $10 a month.',
		'It costs $5, or $ 6.',
		'between $5-$10',
		'$5/$6',
		'US$5 and US$6',
		'a budget of $20 million and CA$ too',
		'It is $100 and that$ is that',
		'$HOME and $PATH',
		'$HOME/$PATH',
		'an escaped \\$x\\$',
		'`$x$` in code',
		'```\n$x$\n```',
		'$ x $',
		'a $$ b',
		'$$\n\n$$',
		'one $ alone',
	])('%j has none, and shows its signs', (text) => {
		expect(texOf(text)).toEqual([]);
		const signs = (text.match(/\$/g) ?? []).length;
		expect((dom(text).textContent?.match(/\$/g) ?? []).length).toBe(signs);
	});

	it('shows the source until it is drawn, and where it cannot be read', async () => {
		expect(dom('a $x^2$ b').textContent?.trim()).toBe('a $x^2$ b');
		const wrong = dom('$\\frac{a$').querySelector<HTMLElement>('[data-math]');
		const right = dom('$\\frac{a}{b}$').querySelector<HTMLElement>('[data-math]');
		if (!wrong || !right) throw new Error('both are formulas');
		drawFormula(wrong);
		drawFormula(right);
		await expect.poll(() => wrong.dataset['drawn']).toBe('no');
		expect(wrong.textContent).toBe('$\\frac{a$');
		await expect.poll(() => right.dataset['drawn']).toBe('yes');
		expect(right.querySelector('math')).not.toBeNull();
		expect(right.querySelector('[data-css]'), 'styles are set by script').toBeNull();
	});

	it('draws nothing that loads or leads away', async () => {
		for (const tex of ['\\href{javascript:alert(1)}{x}', '\\includegraphics{https://example.test/x.png}']) {
			const place = dom(`$${tex}$`).querySelector<HTMLElement>('[data-math]');
			if (!place) throw new Error('it is a formula');
			drawFormula(place);
			await expect.poll(() => place.dataset['drawn']).toBeDefined();
			expect(place.querySelector('a,img,[href],[src]')).toBeNull();
		}
	});
});

describe('a formula that is being typed', () => {
	const typed = (text: string) => root(new MarkdownStream().update(text, 'growing'));

	it.each([
		['so $x_1 + y', '$x_1 + y'],
		['so $$\na &= b \\\\\n- c', '$$\na &= b \\\\\n- c'],
		['so \\(a*b*', '\\(a*b*'],
		['\\[\n# no heading', '\\[\n# no heading'],
	])('%j shows %j as it is, without emphasis or headings', (text, source) => {
		const element = typed(text);
		expect(element.querySelector('.md-math-open')?.textContent).toBe(source);
		expect(element.querySelector('em,strong,ul,h3')).toBeNull();
	});

	it('closes emphasis round it', () => {
		expect(typed('**so $x^').querySelector('strong .md-math-open')?.textContent).toBe('$x^');
	});

	it('takes a price for a price', () => {
		expect(typed('It costs $5 or').querySelector('.md-math-open')).toBeNull();
		expect(typed('It costs $5 or').textContent?.trim()).toBe('It costs $5 or');
	});

	it('never shows half of a formula as other Markdown, wherever it stops', () => {
		const stream = new MarkdownStream();
		for (let end = 1; end <= formulas.length; end += 1) {
			const element = root(stream.update(formulas.slice(0, end), 'growing'));
			for (const place of element.querySelectorAll('.md-math, .md-math-open')) place.remove();
			expect(element.textContent, formulas.slice(Math.max(0, end - 30), end)).not.toMatch(/[\\^{}&]/);
			expect(element.querySelector('em, ul, h3')).toBeNull();
		}
	});
});
