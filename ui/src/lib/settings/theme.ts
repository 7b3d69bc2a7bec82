import type { Theme } from '../ipc/wire';

export const themeNames: readonly { value: Theme; label: string }[] = [
	{ value: 'system', label: 'System' },
	{ value: 'light', label: 'Light' },
	{ value: 'dark', label: 'Dark' },
];

const systemIsDark = '(prefers-color-scheme: dark)';

/** Applies the theme to the document and follows the system while it is asked to. Returns how to stop following. */
export function applyTheme(theme: Theme): () => void {
	const query = matchMedia(systemIsDark);
	const apply = () => {
		const isDark = theme === 'dark' || (theme === 'system' && query.matches);
		document.documentElement.dataset['theme'] = isDark ? 'dark' : 'light';
	};
	apply();
	query.addEventListener('change', apply);
	return () => query.removeEventListener('change', apply);
}
