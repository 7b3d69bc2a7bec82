import { svelte } from '@sveltejs/vite-plugin-svelte';
import { svelteTesting } from '@testing-library/svelte/vite';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const fromHere = (path: string) => fileURLToPath(new URL(path, import.meta.url));

// The app's own policy (tauri.conf.json), so that the tests in Chromium meet it too.
const contentSecurityPolicy = [
	"default-src 'none'",
	"script-src 'self'",
	"style-src 'self'",
	"img-src 'self' data:",
	"font-src 'self'",
	"connect-src 'self'",
	"base-uri 'none'",
	"form-action 'none'",
].join('; ');

export default defineConfig(({ mode }) => ({
	plugins: [svelte(), ...(process.env['VITEST'] ? [svelteTesting()] : [])],
	resolve: {
		alias: {
			// Chosen when the bundle is made: the scripted backend is not even part of the app's module graph.
			'#backend': fromHere(mode === 'fake' ? './src/lib/ipc/fake.ts' : './src/lib/ipc/tauri.ts'),
		},
	},
	build: {
		outDir: mode === 'fake' ? 'test-results/fake-app' : 'dist',
		emptyOutDir: true,
		target: ['es2022', 'safari16.4'],
		assetsInlineLimit: 0,
		modulePreload: { polyfill: false },
		chunkSizeWarningLimit: 700,
	},
	server: { port: 5173, strictPort: true },
	preview: { headers: { 'Content-Security-Policy': contentSecurityPolicy } },
	clearScreen: false,
	test: {
		environment: 'jsdom',
		include: ['src/**/*.spec.ts', 'src/**/*.svelte.test.ts', 'lint/**/*.spec.ts'],
		restoreMocks: true,
		// Two cores may be building Rust meanwhile.
		testTimeout: 90_000,
	},
}));
