import { wordsFor } from '../i18n/language.svelte';
import type { Theme } from '../ipc/wire';

export const themes: readonly Theme[] = ['system', 'light', 'dark'];

export const themeWords = wordsFor<Theme>({
	system: 'settings:themeSystem',
	light: 'settings:themeLight',
	dark: 'settings:themeDark',
});

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
