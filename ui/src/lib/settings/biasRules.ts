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
			error: `At most ${biasMaxCount} tokens can have a bias; there are ${filled.length}.`,
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
	const error = twice ? `A token can have one bias; ${nameOf(biasFormOf(twice))} has two.` : null;
	return { value: settings, error };
}

function checkRow(row: BiasRow): { value: BiasSetting; error: string | null } {
	const { value, error } = checkNumber(row.value, {
		name: `Bias of ${nameOf(row)}`,
		limit: 'from -100 to 100',
		isWhole: false,
		holds: (v) => v >= -100 && v <= 100,
	});
	if (row.kind === 'text') {
		const isEmpty = row.target === '' ? 'A bias needs the text of its token.' : null;
		return { value: { target: { kind: 'text', text: row.target }, value }, error: error ?? isEmpty };
	}
	const id = checkNumber(row.target, {
		name: 'Token id',
		limit: '0 or more',
		isWhole: true,
		holds: (v) => v >= 0 && v <= idMax,
	});
	return { value: { target: { kind: 'tokenId', id: id.value }, value }, error: id.error ?? error };
}

function nameOf(row: BiasRow): string {
	return row.kind === 'text' ? `“${row.target}”` : `token ${row.target}`;
}
