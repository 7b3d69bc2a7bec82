import { t } from '../i18n/language.svelte';
import type { SamplingSettings } from '../ipc/wire';
import { shortDecimal } from '../settings/numberRules';
import { checkForm, formOf } from '../settings/samplingRules';

/** In what the answers of a fan-out differ. */
export type FanOutKind = 'seeds' | 'temperatures' | 'systemPrompts' | 'presets' | 'models' | 'tabs';

/** Answers that one question may have at once. */
export const variantsAtLeast = 2;
export const variantsAtMost = 8;

/** Kinds whose variants are typed, one a line. */
export type TypedKind = 'seeds' | 'temperatures' | 'systemPrompts';

export interface TypedVariant {
	settings: SamplingSettings;
	/** What is wrong with what was typed. */
	error: string | null;
}

/** A seed that nobody has to think of. */
export function drawnSeed(): string {
	return String(crypto.getRandomValues(new Uint32Array(1))[0]);
}

/** What each kind starts with, from the settings of the tab. */
export function startingLines(base: SamplingSettings): Record<TypedKind, string[]> {
	return {
		seeds: [base.seed ?? drawnSeed(), drawnSeed(), drawnSeed()],
		temperatures: ['0', '0.7', '1.2'],
		systemPrompts: [
			base.systemPrompt,
			base.systemPrompt.trim() === '' ? t('fanOut:exampleSystemPrompt') : '',
		],
	};
}

/** The line that is added to those that are there. */
export function nextLine(kind: TypedKind, lines: readonly string[]): string {
	if (kind === 'seeds') return drawnSeed();
	if (kind === 'systemPrompts') return '';
	const last = Number(lines.at(-1));
	return Number.isFinite(last) ? String(Math.min(5, Number((last + 0.3).toFixed(2)))) : '1';
}

/** The variants of typed lines; each error stands beside its line. */
export function typedVariants(
	kind: TypedKind,
	lines: readonly string[],
	base: SamplingSettings,
): TypedVariant[] {
	return lines.map((line) => {
		if (kind === 'systemPrompts') return { settings: { ...base, systemPrompt: line }, error: null };
		const field = kind === 'seeds' ? 'seed' : 'temperature';
		const { settings, errors } = checkForm({ ...formOf(base), [field]: line });
		return { settings: settings ?? base, error: errors?.[field] ?? null };
	});
}

/** How often prompts are read for these variants, and how many are asked of servers. */
export function readingsOf(variants: readonly SamplingSettings[]): { prompts: number; remote: number } {
	const local = variants.filter(({ remote }) => remote === null);
	const prompts = new Set(local.map(({ systemPrompt, wantsThinking }) => `${wantsThinking} ${systemPrompt}`));
	return { prompts: prompts.size, remote: variants.length - local.length };
}

/** What is shared, in a sentence. */
export function readingWords(variants: readonly SamplingSettings[]): string {
	const { prompts, remote } = readingsOf(variants);
	const words: string[] = [];
	if (prompts === 1) words.push(t('fanOut:readOnce'));
	if (prompts > 1) words.push(t('fanOut:readSeveral', { count: prompts }));
	if (remote > 0) words.push(t('fanOut:remote', { count: remote }));
	return words.join(' ');
}

type Compared = Pick<
	SamplingSettings,
	'remote' | 'systemPrompt' | 'temperature' | 'topP' | 'topK' | 'minP' | 'seed' | 'maxTokens'
>;

const said: { [K in keyof Compared]: (value: Compared[K]) => string } = {
	remote: (remote) => remote?.model ?? t('fanOut:thisComputer'),
	systemPrompt: (text) =>
		text.trim() === ''
			? t('fanOut:noSystemPrompt')
			: t('fanOut:systemPrompt', { text: text.trim().slice(0, 48) }),
	temperature: (value) => t('fanOut:temperature', { value: shortDecimal(value) }),
	topP: (value) => t('fanOut:topP', { value: shortDecimal(value) }),
	topK: (value) => t('fanOut:topK', { value }),
	minP: (value) => t('fanOut:minP', { value: shortDecimal(value) }),
	seed: (seed) => (seed === null ? t('fanOut:drawnSeed') : t('fanOut:seed', { seed })),
	maxTokens: (value) => t('fanOut:maxTokens', { value }),
};

/** In what an answer differs from those beside it; its seed if it differs in nothing else. */
export function variantWords(
	settings: SamplingSettings | null,
	all: readonly (SamplingSettings | null)[],
): string {
	if (!settings) return '';
	const known = all.filter((other) => other !== null);
	const fields = Object.keys(said) as (keyof Compared)[];
	const differing = fields.filter(
		(field) => new Set(known.map((other) => JSON.stringify(other[field]))).size > 1,
	);
	const isOnlySeed = differing.length === 0 || differing.every((field) => field === 'seed');
	const shown = isOnlySeed ? (['seed'] as const) : differing.filter((field) => field !== 'seed');
	return shown.map((field) => say(settings, field)).join(' · ');
}

function say<K extends keyof Compared>(settings: SamplingSettings, field: K): string {
	return said[field](settings[field]);
}
