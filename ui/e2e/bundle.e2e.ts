import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';

function texts(folder: string): string[] {
	return readdirSync(folder, { recursive: true, withFileTypes: true })
		.filter((entry) => entry.isFile())
		.map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'));
}

test('the app’s bundle holds no scripted backend, no inline script and no eval', () => {
	const folder = mkdtempSync(join(tmpdir(), 'braid-bundle-'));
	try {
		execFileSync('node_modules/.bin/vite', ['build', '--outDir', folder, '--logLevel', 'error']);
		const all = texts(folder).join('\n');
		const traces = ['braid-scripted-history', 'breaksDrawing', 'is the capital of France. It has been'];
		for (const trace of traces) {
			expect(all).not.toContain(trace);
			expect(texts('test-results/fake-app').join('\n'), 'the fake build has it').toContain(trace);
		}
		expect(all).not.toMatch(/\beval\(|new Function\(/);
		expect(readFileSync(join(folder, 'index.html'), 'utf8')).not.toMatch(/<script(?![^>]*src=)[^>]*>|style=/);
	} finally {
		rmSync(folder, { recursive: true });
	}
});
