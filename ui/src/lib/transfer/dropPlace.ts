import type { FileDrop } from '../ipc/wire';

/** Whether files are over the list of conversations, which imports them; elsewhere they are attached. */
export function isOverSidebar({ x, y }: Pick<FileDrop, 'x' | 'y'>): boolean {
	const sidebar = document.querySelector('[data-testid="sidebar"]')?.getBoundingClientRect();
	return !!sidebar && x >= sidebar.left && x < sidebar.right && y >= sidebar.top && y < sidebar.bottom;
}
