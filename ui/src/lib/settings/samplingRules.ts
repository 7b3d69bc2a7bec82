import type { WordKey } from '../i18n/catalogue';
import { t } from '../i18n/language.svelte';
import type { RemoteTarget, SamplingSettings } from '../ipc/wire';
import { biasFormOf, checkBias, type BiasRow } from './biasRules';
import { checkNumber, decimal, shownValue, type NumberRule } from './numberRules';
import { checkStructure, structureFormOf, type StructureKind } from './structureRules';

/** Sampling settings as they are typed: text until they are checked. */
export interface SamplingForm {
	temperature: string;
	topP: string;
	topK: string;
	minP: string;
	seed: string;
	maxTokens: string;
	/** Empty: off. */
	logprobs: string;
	/** Empty: the model's own choice. */
	thinkingBudget: string;
	repetitionPenalty: string;
	frequencyPenalty: string;
	presencePenalty: string;
	/** Empty: off. */
	xtcThreshold: string;
	xtcProbability: string;
	/** One sequence a line; `\n` and `\t` are read as such. */
	stop: string;
	systemPrompt: string;
	structureKind: StructureKind;
	/** Schema, expression or grammar. */
	structureText: string;
	bias: readonly BiasRow[];
	wantsBiasTrace: boolean;
	wantsThinking: boolean | null;
	remote: RemoteTarget | null;
}

export type FormField = keyof SamplingForm;
export type FormErrors = Partial<Record<FormField, string>>;
export type CheckedForm =
	{ settings: SamplingSettings; errors: null } | { settings: null; errors: FormErrors };

const seedMax = 2n ** 64n - 1n;
const stopMaxCount = 16;
/** Largest token count that a setting can hold on the wire (u32). */
const countMax = 4_294_967_295;
/** Chance of "exclude top choices" when only a threshold is given. */
const xtcUsualProbability = '0.5';

const isCount = (v: number) => v >= 0 && v <= countMax;
const isWithin2 = (v: number) => v >= -2 && v <= 2;

/** Rule of a field; its name is the field's label. */
interface LineRule extends Pick<NumberRule, 'isWhole' | 'holds'> {
	limit: WordKey;
}

const numberRules = {
	temperature: { limit: 'sampling:from0to5', isWhole: false, holds: (v) => v >= 0 && v <= 5 },
	topP: { limit: 'sampling:above0upTo1', isWhole: false, holds: (v) => v > 0 && v <= 1 },
	topK: { limit: 'sampling:atLeast0', isWhole: true, holds: isCount },
	minP: { limit: 'sampling:from0below1', isWhole: false, holds: (v) => v >= 0 && v < 1 },
	maxTokens: { limit: 'sampling:atLeast1', isWhole: true, holds: (v) => v >= 1 && isCount(v) },
	logprobs: { limit: 'sampling:from0to20', isWhole: true, holds: (v) => v >= 0 && v <= 20 },
	thinkingBudget: { limit: 'sampling:atLeast0', isWhole: true, holds: isCount },
	repetitionPenalty: {
		limit: 'sampling:above0upTo10',
		isWhole: false,
		holds: (v) => v > 0 && v <= 10,
	},
	frequencyPenalty: { limit: 'sampling:fromMinus2to2', isWhole: false, holds: isWithin2 },
	presencePenalty: { limit: 'sampling:fromMinus2to2', isWhole: false, holds: isWithin2 },
	xtcThreshold: {
		limit: 'sampling:above0upTo1',
		isWhole: false,
		holds: (v) => v > 0 && v <= 1,
	},
	xtcProbability: {
		limit: 'sampling:from0to1',
		isWhole: false,
		holds: (v) => v >= 0 && v <= 1,
	},
} as const satisfies Partial<Record<FormField, LineRule>>;

type NumberField = keyof typeof numberRules;

export function formOf(settings: SamplingSettings): SamplingForm {
	const { structureKind, structureText } = structureFormOf(settings.structuredOutput);
	return {
		temperature: decimal(settings.temperature),
		topP: decimal(settings.topP),
		topK: String(settings.topK),
		minP: decimal(settings.minP),
		seed: settings.seed ?? '',
		maxTokens: String(settings.maxTokens),
		logprobs: optional(settings.logprobs),
		thinkingBudget: optional(settings.thinkingBudget),
		repetitionPenalty: decimal(settings.repetitionPenalty),
		frequencyPenalty: decimal(settings.frequencyPenalty),
		presencePenalty: decimal(settings.presencePenalty),
		xtcThreshold: settings.xtc ? decimal(settings.xtc.threshold) : '',
		xtcProbability: settings.xtc ? decimal(settings.xtc.probability) : xtcUsualProbability,
		stop: settings.stop.map(escapeLine).join('\n'),
		systemPrompt: settings.systemPrompt,
		structureKind,
		structureText,
		bias: settings.logitBias.map(biasFormOf),
		wantsBiasTrace: settings.wantsBiasTrace,
		wantsThinking: settings.wantsThinking,
		remote: settings.remote,
	};
}

const optional = (value: number | null) => (value === null ? '' : String(value));

function escapeLine(text: string): string {
	return text.replace(/\\/g, '\\\\').replace(/\n/g, '\\n').replace(/\t/g, '\\t');
}

function unescapeLine(line: string): string {
	return line.replace(/\\([\\nt])/g, (_, letter: string) => ({ n: '\n', t: '\t' })[letter] ?? '\\');
}

function ruleOf(field: NumberField): NumberRule {
	const rule: LineRule = numberRules[field];
	return { ...rule, name: t(`sampling:${field}`), limit: t(rule.limit) };
}

/** Checks every field. An error names the field, its limit and the value. */
export function checkForm(form: SamplingForm): CheckedForm {
	const errors: FormErrors = {};
	const note = <T>(field: FormField, { value, error }: { value: T; error: string | null }): T => {
		if (error !== null) errors[field] = error;
		return value;
	};
	const numberIn = (field: NumberField) => note(field, checkNumber(form[field], ruleOf(field)));
	const numberOrNull = (field: NumberField) => (form[field].trim() === '' ? null : numberIn(field));
	const threshold = numberOrNull('xtcThreshold');
	const settings: SamplingSettings = {
		temperature: numberIn('temperature'),
		topP: numberIn('topP'),
		topK: numberIn('topK'),
		minP: numberIn('minP'),
		seed: note('seed', checkSeed(form.seed.trim())),
		maxTokens: numberIn('maxTokens'),
		logprobs: numberOrNull('logprobs'),
		stop: note('stop', checkStop(form.stop)),
		systemPrompt: form.systemPrompt,
		xtc: threshold === null ? null : { threshold, probability: numberIn('xtcProbability') },
		repetitionPenalty: numberIn('repetitionPenalty'),
		frequencyPenalty: numberIn('frequencyPenalty'),
		presencePenalty: numberIn('presencePenalty'),
		logitBias: note('bias', checkBias(form.bias)),
		wantsBiasTrace: form.wantsBiasTrace,
		structuredOutput: note('structureText', checkStructure(form.structureKind, form.structureText)),
		thinkingBudget: numberOrNull('thinkingBudget'),
		wantsThinking: form.wantsThinking,
		remote: form.remote,
	};
	return Object.keys(errors).length === 0 ? { settings, errors: null } : { settings: null, errors };
}

function checkSeed(typed: string): { value: string | null; error: string | null } {
	if (typed === '') return { value: null, error: null };
	if (/^\d+$/.test(typed) && BigInt(typed) <= seedMax) return { value: typed, error: null };
	const error = t('sampling:seedLimit', { max: String(seedMax), shown: shownValue(typed) });
	return { value: null, error };
}

function checkStop(typed: string): { value: string[]; error: string | null } {
	const lines = typed.split('\n').filter((line) => line !== '');
	const isTooMany = lines.length > stopMaxCount;
	const error = t('sampling:stopLimit', { most: stopMaxCount, count: lines.length });
	return { value: lines.map(unescapeLine), error: isTooMany ? error : null };
}
