import { t } from '../i18n/language.svelte';
import { drawFormula } from './formula';

/** What a reader chose for all code. */
export interface CodeLook {
	isWrapped: boolean;
}

/**
 * Finishes drawn Markdown in place: words in the window's language, the state of buttons, and formulas. Reads what it
 * depends on, so that an effect that runs it follows the language and the look.
 */
export function decorate(block: HTMLElement, look: CodeLook) {
	for (const button of block.querySelectorAll<HTMLElement>('[data-copy-code]')) {
		button.textContent = t('markdown:copy');
		button.setAttribute('aria-label', t('markdown:copyCode'));
	}
	for (const button of block.querySelectorAll<HTMLElement>('[data-wrap-code]')) {
		button.textContent = t('markdown:wrap');
		button.setAttribute('aria-label', t('markdown:wrapLines'));
		button.setAttribute('aria-pressed', String(look.isWrapped));
	}
	for (const code of block.querySelectorAll<HTMLElement>('[data-language]')) {
		const language = code.dataset['language'] ?? '';
		code.setAttribute('aria-label', t('markdown:code', { language }));
	}
	for (const button of block.querySelectorAll<HTMLElement>('[data-copy-table]')) {
		button.textContent = t('markdown:copyTable');
	}
	for (const table of block.querySelectorAll<HTMLElement>('.md-scroll')) {
		table.setAttribute('role', 'region');
		table.setAttribute('aria-label', t('markdown:table'));
	}
	for (const image of block.querySelectorAll<HTMLElement>('[data-image]')) {
		image.textContent = t('markdown:image', { name: image.dataset['image'] ?? '' });
	}
	for (const place of block.querySelectorAll<HTMLElement>('[data-math]')) drawFormula(place);
}

/** A table as text for a spreadsheet: a tab between cells, a line for each row. */
export function tableText(table: HTMLTableElement): string {
	const rows = [...table.rows].map((row) =>
		[...row.cells].map((cell) => plainText(cell).replace(/\s+/g, ' ').trim()).join('\t'),
	);
	return `${rows.join('\n')}\n`;
}

/** Text of an element, with formulas as they were typed. */
function plainText(element: Element): string {
	const copy = element.cloneNode(true) as Element;
	for (const place of copy.querySelectorAll<HTMLElement>('[data-math]')) {
		place.textContent = place.dataset['math'] ?? '';
	}
	return copy.textContent ?? '';
}
