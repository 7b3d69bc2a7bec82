import { expect, it, vi } from 'vitest';
import { stubBackend } from '../testing/stubBackend';
import { UiFailure } from './uiFailure.svelte';

function failureWith(reportUiFailure = vi.fn(() => Promise.resolve())) {
	return { failure: new UiFailure(stubBackend({ reportUiFailure })), reportUiFailure };
}

it('reports what nothing else caught, and shows it', () => {
	const { failure, reportUiFailure } = failureWith();
	const target = new EventTarget() as Window;
	failure.listen(target);
	target.dispatchEvent(Object.assign(new Event('error'), { error: new Error('broken part') }));
	expect(failure.details).toContain('broken part');
	expect(reportUiFailure).toHaveBeenCalledOnce();
	failure.dismiss();
	expect(failure.details).toBeNull();
});

it('ignores layout noise', () => {
	const { failure, reportUiFailure } = failureWith();
	failure.report('ResizeObserver loop completed with undelivered notifications.');
	expect(failure.details).toBeNull();
	expect(reportUiFailure).not.toHaveBeenCalled();
});

it('does not fill the log from a loop', () => {
	const { failure, reportUiFailure } = failureWith();
	for (let i = 0; i < 500; i += 1) failure.report(new Error(`number ${i}`));
	expect(reportUiFailure.mock.calls.length).toBeLessThan(50);
});
