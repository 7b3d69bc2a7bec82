import js from '@eslint/js';
import prettier from 'eslint-config-prettier';
import svelte from 'eslint-plugin-svelte';
import globals from 'globals';
import ts from 'typescript-eslint';
import { noBareWords } from './lint/noBareWords.js';
import svelteConfig from './svelte.config.js';

const onlyTauri = {
	group: ['@tauri-apps/*'],
	message: 'Only src/lib/ipc/tauri.ts talks to Tauri; go through the Backend interface.',
};
const onlyTypes = {
	regex: 'ipc/generated/bindings$',
	allowTypeImports: true,
	message: 'Import types only; the calls go through the Backend interface.',
};
const noFake = {
	regex: 'ipc/(fake|tauri)$',
	message: "Import '#backend'; the build decides which one it is.",
};
const onlyShared = {
	regex: '(/lib/(?!i18n/)|components/(chat|engine|models|settings)|views/)',
	message: 'Shared components know nothing of the domain: pass props.',
};

/** Restricts the imports of some files; `restricted` replaces the rule of the block before. */
function fence(files, patterns, ignores = []) {
	return {
		files,
		ignores,
		rules: {
			'no-restricted-imports': 'off',
			'@typescript-eslint/no-restricted-imports': ['error', { patterns }],
		},
	};
}

export default ts.config(
	{ ignores: ['dist', 'test-results', 'src/lib/ipc/generated'] },
	js.configs.recommended,
	...ts.configs.strict,
	...svelte.configs.recommended,
	prettier,
	...svelte.configs.prettier,
	{
		languageOptions: { globals: { ...globals.browser, ...globals.node } },
		rules: {
			'no-console': 'error',
			'@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
			'@typescript-eslint/consistent-type-imports': 'error',
			eqeqeq: 'error',
		},
	},
	{
		files: ['**/*.svelte', '**/*.svelte.ts'],
		languageOptions: { parserOptions: { parser: ts.parser, svelteConfig } },
		rules: {
			// Sanitised in lib/chat/markdown.ts; the one component that uses it says so.
			'svelte/no-at-html-tags': 'error',
			'svelte/prefer-svelte-reactivity': 'error',
		},
	},
	{
		files: ['src/**/*.{ts,svelte}'],
		// What speaks for the backend, and what is shown when no catalogue can be loaded.
		ignores: [
			'src/**/*.spec.ts',
			'src/**/*.test.ts',
			'src/lib/testing/**',
			'src/lib/ipc/fake/**',
			'src/bootWords.ts',
		],
		plugins: { braid: { rules: { 'no-bare-words': noBareWords } } },
		rules: { 'braid/no-bare-words': 'error' },
	},
	fence(['src/**/*.{ts,svelte}'], [onlyTauri, onlyTypes, noFake], ['src/lib/ipc/tauri.ts']),
	fence(['src/components/shared/**'], [onlyTauri, onlyTypes, noFake, onlyShared]),
	fence(
		['src/components/chat/**'],
		[
			onlyTauri,
			onlyTypes,
			noFake,
			{
				regex: '(components/(engine|models|settings)|^\\.\\./(engine|models|settings)|views/)',
				message: 'Domains meet in views.',
			},
		],
	),
	fence(
		['src/components/engine/**'],
		[
			onlyTauri,
			onlyTypes,
			noFake,
			{
				regex: '(components/(chat|models|settings)|^\\.\\./(chat|models|settings)|views/)',
				message: 'Domains meet in views.',
			},
		],
	),
	fence(
		['src/components/models/**'],
		[
			onlyTauri,
			onlyTypes,
			noFake,
			{
				regex: '(components/(chat|engine|settings)|^\\.\\./(chat|engine|settings)|views/)',
				message: 'Domains meet in views.',
			},
		],
	),
	fence(
		['src/components/settings/**'],
		[
			onlyTauri,
			onlyTypes,
			noFake,
			{
				regex: '(components/(chat|engine|models)|^\\.\\./(chat|engine|models)|views/)',
				message: 'Domains meet in views.',
			},
		],
	),
	{
		files: ['src/**/*.spec.ts', 'src/**/*.test.ts', 'src/lib/testing/**'],
		rules: { '@typescript-eslint/no-restricted-imports': 'off' },
	},
	{ files: ['e2e/**'], rules: { 'no-console': 'off' } },
);
