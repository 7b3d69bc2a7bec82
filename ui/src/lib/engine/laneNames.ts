import { t } from '../i18n/language.svelte';
import type { RowStatus } from '../ipc/wire';

/** What a lane is called. */
export interface LaneName {
	name: string;
	/** Tells it from others of the same name; `null` if there are none. */
	number: number | null;
}

/** Names of lanes, in the order of the rows; those that would be called alike are numbered by arrival. */
export function laneNames(
	rows: readonly RowStatus[],
	titleOf: (conversationId: string) => string,
): LaneName[] {
	const keyOf = (row: RowStatus) => row.conversationId ?? row.source;
	const seen = new Map<string, number>();
	return rows.map((row) => {
		const key = keyOf(row);
		const number = (seen.get(key) ?? 0) + 1;
		seen.set(key, number);
		const isAlone = rows.filter((other) => keyOf(other) === key).length === 1;
		return { name: nameOf(row, titleOf), number: isAlone ? null : number };
	});
}

function nameOf(row: RowStatus, titleOf: (conversationId: string) => string): string {
	if (row.conversationId !== null) return titleOf(row.conversationId);
	if (row.source === 'server') return t('lanes:server');
	return row.source === 'benchmark' ? t('lanes:benchmark') : row.requestId;
}
