import { fireEvent, render, screen } from '@testing-library/svelte';
import { expect, it, vi } from 'vitest';
import type { DownloadStatus } from '../../lib/ipc/wire';
import { ModelsState } from '../../lib/models/models.svelte';
import { downloadOf } from '../../lib/testing/samples';
import { stubBackend } from '../../lib/testing/stubBackend';
import DownloadRow from './DownloadRow.svelte';

function row(download: DownloadStatus) {
	const calls = {
		pauseDownload: vi.fn(async () => {}),
		resumeDownload: vi.fn(async () => {}),
		cancelDownload: vi.fn(async () => {}),
		dismissDownload: vi.fn(async () => {}),
	};
	const onload = vi.fn();
	const models = new ModelsState(stubBackend(calls), { onNews: vi.fn(), onFailure: vi.fn() });
	const { rerender } = render(DownloadRow, { models, download, onload });
	return { ...calls, onload, rerender };
}

const problem = { code: 'hubUnreachable' as const, detail: 'connection reset' };

it.each([
	[{ kind: 'running' as const }, 'Pause: owner/model', 'pauseDownload' as const],
	[{ kind: 'queued' as const }, 'Pause: owner/model', 'pauseDownload' as const],
	[{ kind: 'paused' as const }, 'Resume: owner/model', 'resumeDownload' as const],
	[{ kind: 'failed' as const, problem }, 'Try again: owner/model', 'resumeDownload' as const],
	[{ kind: 'verifying' as const }, 'Cancel: owner/model', 'cancelDownload' as const],
	[{ kind: 'done' as const, modelId: 'a' }, 'Dismiss: owner/model', 'dismissDownload' as const],
])('a download that is %j offers “%s”', async (phase, name, call) => {
	const calls = row(downloadOf({ phase }));
	await fireEvent.click(screen.getByRole('button', { name }));
	expect(calls[call]).toHaveBeenCalledWith('d1');
});

it('a complete one leads to its model', async () => {
	const { onload } = row(downloadOf({ phase: { kind: 'done', modelId: 'b' } }));
	await fireEvent.click(screen.getByRole('button', { name: 'Load now: owner/model' }));
	expect(onload).toHaveBeenCalledWith('b');
});

it('the button that pauses keeps the focus when it becomes the one that resumes', async () => {
	const { rerender } = row(downloadOf());
	screen.getByRole('button', { name: 'Pause: owner/model' }).focus();
	await rerender({ download: downloadOf({ phase: { kind: 'paused' } }) });
	expect(document.activeElement?.getAttribute('aria-label')).toBe('Resume: owner/model');
});

it('a failure is said in words with its detail', () => {
	row(downloadOf({ phase: { kind: 'failed', problem } }));
	const words = screen.getByRole('alert').textContent;
	expect(words).toContain('The hub cannot be reached');
	expect(words).toContain('connection reset');
});

it('progress can be heard', () => {
	row(downloadOf());
	expect(screen.getByRole('progressbar').getAttribute('aria-valuenow')).toBe('25');
});
