import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

export default defineConfig({
	// The table of shortcuts reads the language, which is a rune.
	plugins: [svelte()],
	test: {
		include: ['e2e/*.e2e.ts'],
		globalSetup: ['e2e/previewServer.ts'],
		testTimeout: 40_000,
		hookTimeout: 40_000,
		// One browser, one test at a time: the machine has two cores and the tests measure nothing.
		fileParallelism: false,
		expect: { poll: { timeout: 10_000 } },
	},
});
