import { t } from '../i18n/language.svelte';
import type { StructuredOutput } from '../ipc/wire';

/** Language of structured output; `off` is free text. */
export type StructureKind = 'off' | StructuredOutput['kind'];

interface Structure {
	structureKind: StructureKind;
	structureText: string;
}

export function structureFormOf(structured: StructuredOutput | null): Structure {
	if (structured === null) return { structureKind: 'off', structureText: '' };
	const { kind } = structured;
	if (kind === 'jsonSchema') return { structureKind: kind, structureText: structured.schema };
	if (kind === 'regex') return { structureKind: kind, structureText: structured.pattern };
	return { structureKind: kind, structureText: structured.grammar };
}

/** Checks as much as can be checked while typing: the engine reads the rest when the message is sent. */
export function checkStructure(
	kind: StructureKind,
	text: string,
): { value: StructuredOutput | null; error: string | null } {
	switch (kind) {
		case 'off':
			return { value: null, error: null };
		case 'jsonSchema':
			return { value: { kind, schema: text }, error: schemaError(text) };
		case 'regex':
			return { value: { kind, pattern: text }, error: text === '' ? t('sampling:regexEmpty') : null };
		case 'lark':
			return {
				value: { kind, grammar: text },
				error: text.trim() === '' ? t('sampling:grammarEmpty') : null,
			};
	}
}

function schemaError(text: string): string | null {
	if (text.trim() === '') return t('sampling:schemaEmpty');
	try {
		const schema: unknown = JSON.parse(text);
		const isSchema = typeof schema === 'boolean' || (typeof schema === 'object' && schema !== null);
		return isSchema && !Array.isArray(schema) ? null : t('sampling:schemaNotObject');
	} catch (thrown) {
		return t('sampling:schemaNotJson', { detail: thrown instanceof Error ? thrown.message : String(thrown) });
	}
}
