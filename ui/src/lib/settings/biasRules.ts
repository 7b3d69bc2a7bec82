import { quoted } from '../format';
import { t } from '../i18n/language.svelte';
import type { BiasSetting } from '../ipc/wire';
import { checkNumber, decimal } from './numberRules';

/** The bias of one token, as it is typed. */
export interface BiasRow {
	kind: 'text' | 'tokenId';
	/** The token's text, white space included, or its number. */
	target: string;
	value: string;
}

const biasMaxCount = 1024;
const idMax = 4_294_967_295;

export function biasFormOf({ target, value }: BiasSetting): BiasRow {
	const typed = target.kind === 'text' ? target.text : String(target.id);
	return { kind: target.kind, target: typed, value: decimal(value) };
}

/** Checks the rows; ones without a target and a value are not there yet. Whether a text is one token, the app says. */
export function checkBias(rows: readonly BiasRow[]): { value: BiasSetting[]; error: string | null } {
	const filled = rows.filter((row) => row.target !== '' || row.value.trim() !== '');
	if (filled.length > biasMaxCount) {
		return {
			value: [],
			error: t('sampling:biasLimit', { most: biasMaxCount, count: filled.length }),
		};
	}
	const settings: BiasSetting[] = [];
	for (const row of filled) {
		const { value, error } = checkRow(row);
		if (error !== null) return { value: [], error };
		settings.push(value);
	}
	const keys = settings.map(({ target }) => JSON.stringify(target));
	const twice = settings.find((_, i) => keys.indexOf(keys[i] ?? '') !== i);
	const error = twice ? t('sampling:biasTwice', { token: nameOf(biasFormOf(twice)) }) : null;
	return { value: settings, error };
}

function checkRow(row: BiasRow): { value: BiasSetting; error: string | null } {
	const { value, error } = checkNumber(row.value, {
		name: t('sampling:biasOf', { token: nameOf(row) }),
		limit: t('sampling:fromMinus100to100'),
		isWhole: false,
		holds: (v) => v >= -100 && v <= 100,
	});
	if (row.kind === 'text') {
		const isEmpty = row.target === '' ? t('sampling:biasNeedsText') : null;
		return { value: { target: { kind: 'text', text: row.target }, value }, error: error ?? isEmpty };
	}
	const id = checkNumber(row.target, {
		name: t('sampling:tokenIdName'),
		limit: t('sampling:atLeast0'),
		isWhole: true,
		holds: (v) => v >= 0 && v <= idMax,
	});
	return { value: { target: { kind: 'tokenId', id: id.value }, value }, error: id.error ?? error };
}

function nameOf(row: BiasRow): string {
	return row.kind === 'text' ? quoted(row.target) : t('sampling:tokenNumber', { id: row.target });
}
