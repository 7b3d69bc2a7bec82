/** Numbers and times in words. No `Intl`: WebKit reports the language "C" on some machines and `Intl` throws on it. */

const none = '–';

/** Tokens per second: one decimal below 100. */
export function tokS(value: number | null): string {
	if (value === null) return none;
	return value >= 100 ? value.toFixed(0) : value.toFixed(1);
}

/** A duration: microseconds never, tenths below 10 ms, seconds from 1 s on. */
export function ms(value: number | null): string {
	if (value === null) return none;
	if (value >= 10_000) return `${(value / 1000).toFixed(0)} s`;
	if (value >= 1000) return `${(value / 1000).toFixed(1)} s`;
	return value >= 10 ? `${value.toFixed(0)} ms` : `${value.toFixed(1)} ms`;
}

/** Binary units, as memory is counted. */
export function bytes(value: number): string {
	const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
	let size = value;
	let unit = 0;
	while (size >= 1024 && unit < units.length - 1) {
		size /= 1024;
		unit += 1;
	}
	return `${unit === 0 || size >= 100 ? size.toFixed(0) : size.toFixed(1)} ${units[unit]}`;
}

/** Digits in groups of three, with narrow no-break spaces. */
export function count(value: number): string {
	return value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** "1 token", "2 tokens". */
export function plural(value: number, one: string, many = `${one}s`): string {
	return `${count(value)} ${value === 1 ? one : many}`;
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** How long ago, in the shortest words that are still useful. */
export function ago(thenMs: number, nowMs: number): string {
	const minutes = Math.floor((nowMs - thenMs) / 60_000);
	if (minutes < 1) return 'now';
	if (minutes < 60) return `${minutes} min`;
	if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
	const then = new Date(thenMs);
	const day = `${then.getDate()} ${months[then.getMonth()]}`;
	return then.getFullYear() === new Date(nowMs).getFullYear() ? day : `${day} ${then.getFullYear()}`;
}

/** Midnight before `thenMs`, on this computer's clock. */
export function startOfDay(thenMs: number): number {
	return new Date(thenMs).setHours(0, 0, 0, 0);
}
