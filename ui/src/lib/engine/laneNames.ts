import { t } from '../i18n/language.svelte';
import type { RowStatus } from '../ipc/wire';

/** Names of lanes, in the order of the rows; those that would be called alike are numbered by arrival. */
export function laneNames(rows: readonly RowStatus[], titleOf: (conversationId: string) => string): string[] {
	const keyOf = (row: RowStatus) => row.conversationId ?? row.source;
	const seen = new Map<string, number>();
	return rows.map((row) => {
		const key = keyOf(row);
		const number = (seen.get(key) ?? 0) + 1;
		seen.set(key, number);
		const isAlone = rows.filter((other) => keyOf(other) === key).length === 1;
		const name = nameOf(row, titleOf);
		return isAlone ? name : t('lanes:numbered', { name, number });
	});
}

function nameOf(row: RowStatus, titleOf: (conversationId: string) => string): string {
	if (row.conversationId !== null) return titleOf(row.conversationId);
	if (row.source === 'server') return t('lanes:server');
	return row.source === 'benchmark' ? t('lanes:benchmark') : row.requestId;
}
