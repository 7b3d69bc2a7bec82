import type { SamplingSettings } from '../ipc/wire';

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
	/** One sequence a line; `\n` and `\t` are read as such. */
	stop: string;
	systemPrompt: string;
}

export type FormField = keyof SamplingForm;
export type FormErrors = Partial<Record<FormField, string>>;
export type CheckedForm =
	{ settings: SamplingSettings; errors: null } | { settings: null; errors: FormErrors };

const seedMax = 2n ** 64n - 1n;
const stopMaxCount = 16;
/** Largest token count that a setting can hold on the wire (u32). */
const countMax = 4_294_967_295;

interface NumberRule {
	name: string;
	/** The limit in words. */
	limit: string;
	isWhole: boolean;
	holds(value: number): boolean;
}

const numberRules: Record<'temperature' | 'topP' | 'topK' | 'minP' | 'maxTokens' | 'logprobs', NumberRule> = {
	temperature: { name: 'Temperature', limit: 'from 0 to 5', isWhole: false, holds: (v) => v >= 0 && v <= 5 },
	topP: { name: 'Top-p', limit: 'above 0 and at most 1', isWhole: false, holds: (v) => v > 0 && v <= 1 },
	topK: { name: 'Top-k', limit: '0 or more', isWhole: true, holds: (v) => v >= 0 && v <= countMax },
	minP: { name: 'Min-p', limit: 'at least 0 and below 1', isWhole: false, holds: (v) => v >= 0 && v < 1 },
	maxTokens: { name: 'Max tokens', limit: '1 or more', isWhole: true, holds: (v) => v >= 1 && v <= countMax },
	logprobs: { name: 'Logprobs', limit: 'from 0 to 20', isWhole: true, holds: (v) => v >= 0 && v <= 20 },
};

export function formOf(settings: SamplingSettings): SamplingForm {
	return {
		temperature: decimal(settings.temperature),
		topP: decimal(settings.topP),
		topK: String(settings.topK),
		minP: decimal(settings.minP),
		seed: settings.seed ?? '',
		maxTokens: String(settings.maxTokens),
		logprobs: settings.logprobs === null ? '' : String(settings.logprobs),
		stop: settings.stop.map(escapeLine).join('\n'),
		systemPrompt: settings.systemPrompt,
	};
}

/** Rust keeps these as 32-bit floats: 0.7 comes back as 0.699999988079071. */
function decimal(value: number): string {
	return String(Number(value.toPrecision(6)));
}

function escapeLine(text: string): string {
	return text.replace(/\\/g, '\\\\').replace(/\n/g, '\\n').replace(/\t/g, '\\t');
}

function unescapeLine(line: string): string {
	return line.replace(/\\([\\nt])/g, (_, letter: string) => ({ n: '\n', t: '\t' })[letter] ?? '\\');
}

/** Checks every field. An error names the field, its limit and the value. */
export function checkForm(form: SamplingForm): CheckedForm {
	const errors: FormErrors = {};
	const numberIn = (field: keyof typeof numberRules): number => {
		const { value, error } = checkNumber(form[field], numberRules[field]);
		if (error) errors[field] = error;
		return value;
	};
	const stop = form.stop.split('\n').filter((line) => line !== '');
	const settings: SamplingSettings = {
		temperature: numberIn('temperature'),
		topP: numberIn('topP'),
		topK: numberIn('topK'),
		minP: numberIn('minP'),
		seed: form.seed.trim() === '' ? null : form.seed.trim(),
		maxTokens: numberIn('maxTokens'),
		logprobs: form.logprobs.trim() === '' ? null : numberIn('logprobs'),
		stop: stop.map(unescapeLine),
		systemPrompt: form.systemPrompt,
	};
	if (settings.seed !== null && !(/^\d+$/.test(settings.seed) && BigInt(settings.seed) <= seedMax)) {
		errors.seed = `Seed must be a whole number from 0 to ${seedMax}, or empty; it is “${settings.seed}”.`;
	}
	if (stop.length > stopMaxCount) {
		errors.stop = `Stop sequences can be at most ${stopMaxCount}; there are ${stop.length}.`;
	}
	return Object.keys(errors).length === 0 ? { settings, errors: null } : { settings: null, errors };
}

function checkNumber(typed: string, rule: NumberRule): { value: number; error: string | null } {
	const text = typed.trim();
	const value = Number(text.replace(',', '.'));
	const isNumber = /^[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?$/i.test(text);
	const kind = rule.isWhole ? 'a whole number' : 'a number';
	if (!isNumber || (rule.isWhole && !Number.isInteger(value)) || !rule.holds(value)) {
		const shown = text === '' ? 'empty' : `“${text}”`;
		return { value, error: `${rule.name} must be ${kind}, ${rule.limit}; it is ${shown}.` };
	}
	return { value, error: null };
}
