import type katexModule from 'katex';

type Katex = typeof katexModule;

/** Formulas drawn, kept as templates: a growing block is made anew with every frame. */
const keptFormulas = 400;

const drawn = new Map<string, DocumentFragment | null>();
let katex: Katex | null = null;
let loading: Promise<Katex> | null = null;

/** The library and its style sheet, fetched with the first formula. */
function load(): Promise<Katex> {
	loading ??= Promise.all([import('katex'), import('katex/dist/katex.min.css')]).then(([module]) => {
		katex = module.default;
		return katex;
	});
	return loading;
}

/** Draws the formula of a place that `mathSyntax` left; one that cannot be read stays as it was typed. */
export function drawFormula(place: HTMLElement) {
	const tex = place.dataset['math'];
	if (tex === undefined || place.dataset['drawn'] !== undefined) return;
	if (katex) show(place, katex, tex);
	else
		void load().then(
			(loaded) => show(place, loaded, tex),
			() => {},
		);
}

function show(place: HTMLElement, loaded: Katex, tex: string) {
	const isDisplay = place.classList.contains('md-math-display');
	const key = `${isDisplay ? 'D' : 'I'}${tex}`;
	const known = drawn.get(key);
	const template = known === undefined ? fragmentOf(loaded, tex, isDisplay) : known;
	drawn.delete(key);
	drawn.set(key, template);
	const [oldest] = drawn.keys();
	if (drawn.size > keptFormulas && oldest !== undefined) drawn.delete(oldest);
	place.dataset['drawn'] = template === null ? 'no' : 'yes';
	if (template) place.replaceChildren(template.cloneNode(true));
}

/** `null` for what KaTeX cannot read. */
function fragmentOf(loaded: Katex, tex: string, isDisplay: boolean): DocumentFragment | null {
	try {
		const html = loaded.renderToString(tex, {
			displayMode: isDisplay,
			output: 'htmlAndMathml',
			throwOnError: true,
			trust: false,
			strict: 'ignore',
			maxSize: 12,
			maxExpand: 300,
		});
		return styledFragment(html);
	} catch {
		return null;
	}
}

/**
 * The window's policy forbids style attributes and allows styles that a script sets: they go in under another name
 * and are set from there.
 */
function styledFragment(html: string): DocumentFragment {
	const template = document.createElement('template');
	template.innerHTML = html.replace(/ style="/g, ' data-css="');
	for (const element of template.content.querySelectorAll<HTMLElement | SVGElement>('[data-css]')) {
		element.style.cssText = element.dataset['css'] ?? '';
		element.removeAttribute('data-css');
	}
	return template.content;
}
