/** Names that are the same in every language. */
const names =
	/\b(?:Braid|JSON|Lark|Markdown|MLX|GGUF|TTFT|KV|tok\/s|Hugging Face|OpenAI|vLLM|SGLang|llama\.cpp|https?:\S*)(?![\p{L}\d])/gu;

/** Attributes and properties that hold words for a person. */
const wordy = new Set([
	'advice',
	'alt',
	'aria-description',
	'aria-label',
	'aria-roledescription',
	'aria-valuetext',
	'explanation',
	'heading',
	'hint',
	'label',
	'placeholder',
	'summary',
	'title',
	'words',
]);

/** Whether a text says something in a language: letters that are neither a name nor a key of the catalogue. */
function saysSomething(text) {
	const isKey = /^[a-zA-Z]+:[a-zA-Z0-9]+$/.test(text);
	const isCode = /^\s*[{[]/.test(text);
	if (isKey || isCode) return false;
	return /\p{L}{2}|\p{Script=Han}/u.test(text.replace(names, ''));
}

/** The texts that an expression may come to, without what it passes to calls or compares with. */
function* textsOf(node) {
	if (node === null || node === undefined) return;
	switch (node.type) {
		case 'Literal':
			if (typeof node.value === 'string') yield [node, node.value];
			break;
		case 'TemplateLiteral':
			for (const part of node.quasis) yield [part, part.value.cooked ?? ''];
			for (const expression of node.expressions) yield* textsOf(expression);
			break;
		case 'ConditionalExpression':
			yield* textsOf(node.consequent);
			yield* textsOf(node.alternate);
			break;
		case 'LogicalExpression':
			yield* textsOf(node.left);
			yield* textsOf(node.right);
			break;
		case 'BinaryExpression':
			if (node.operator !== '+') break;
			yield* textsOf(node.left);
			yield* textsOf(node.right);
			break;
		case 'ArrayExpression':
			for (const element of node.elements) yield* textsOf(element);
			break;
		case 'TSAsExpression':
		case 'TSSatisfiesExpression':
		case 'TSNonNullExpression':
			yield* textsOf(node.expression);
			break;
	}
}

const nameOf = (key) => key?.name ?? key?.value ?? '';

/** Words on screen come from the catalogue: a literal is seen in one language only. */
export const noBareWords = {
	meta: {
		type: 'problem',
		schema: [],
		messages: { bare: "Words on screen come from the catalogue: t('namespace:key'). Found “{{text}}”." },
	},
	create(context) {
		function check(node, text) {
			if (!saysSomething(text)) return;
			context.report({ node, messageId: 'bare', data: { text: text.trim().slice(0, 40) } });
		}
		function checkExpression(expression) {
			for (const [node, text] of textsOf(expression)) check(node, text);
		}
		return {
			SvelteText(node) {
				if (node.parent.type !== 'SvelteStyleElement') check(node, node.value);
			},
			SvelteMustacheTag(node) {
				const { parent } = node;
				const isShown = parent.type !== 'SvelteAttribute' && !parent.type.endsWith('Directive');
				if (node.kind === 'text' && (isShown || wordy.has(nameOf(parent.key))))
					checkExpression(node.expression);
			},
			SvelteAttribute(node) {
				if (!wordy.has(nameOf(node.key))) return;
				for (const part of node.value) if (part.type === 'SvelteLiteral') check(part, part.value);
			},
			Property(node) {
				if (node.parent.type === 'ObjectExpression' && wordy.has(nameOf(node.key)))
					checkExpression(node.value);
			},
			CallExpression(node) {
				if (node.callee.type === 'MemberExpression' && nameOf(node.callee.property) === 'say') {
					checkExpression(node.arguments[0]);
				}
			},
		};
	},
};
