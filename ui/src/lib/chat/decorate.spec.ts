import { expect, it } from 'vitest';
import { decorate, tableText } from './decorate';
import { markdownBlocks } from './markdown';

function decorated(text: string, look = { isWrapped: false }): HTMLElement {
	const root = document.createElement('div');
	root.innerHTML = markdownBlocks(text)
		.map(({ html }) => html)
		.join('');
	decorate(root, look);
	return root;
}

it('labels code with its language, and says whether lines wrap', () => {
	const text = '```rust\nlet a = 1;\n```';
	expect(decorated(text).querySelector('pre')?.getAttribute('aria-label')).toBe('Code, rust');
	const pressed = (isWrapped: boolean) =>
		decorated(text, { isWrapped }).querySelector('[data-wrap-code]')?.getAttribute('aria-pressed');
	expect([pressed(false), pressed(true)]).toEqual(['false', 'true']);
});

it('leaves buttons that a model wrote without an effect', () => {
	const root = decorated('<button data-copy-code>x</button>');
	expect(root.querySelector('button')).toBeNull();
});

it('copies a table as cells between tabs, formulas as they were typed', () => {
	const table = decorated('| a | b |\n| --- | --- |\n| **one** two | $x^2$ |').querySelector('table');
	expect(table && tableText(table)).toBe('a\tb\none two\tx^2\n');
});
