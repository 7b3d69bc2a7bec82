import { fireEvent, render, screen } from '@testing-library/svelte';
import { expect, it, vi } from 'vitest';
import type { FitReport } from '../../lib/ipc/wire';
import { ModelsState } from '../../lib/models/models.svelte';
import { fitReportOf, modelOf } from '../../lib/testing/samples';
import { stubBackend } from '../../lib/testing/stubBackend';
import FitPanel from './FitPanel.svelte';

function panel(fit: Partial<FitReport>, answering = 0) {
	const loadModel = vi.fn(async () => {});
	const checkModelFit = async () => fitReportOf(fit);
	const models = new ModelsState(stubBackend({ loadModel, checkModelFit }), {
		onNews: vi.fn(),
		onFailure: vi.fn(),
	});
	render(FitPanel, { models, model: modelOf(), answering, onclose: vi.fn() });
	return loadModel;
}

it('a model that fits is loaded with one press', async () => {
	const loadModel = panel({});
	await screen.findByTestId('verdict');
	await fireEvent.click(screen.getByRole('button', { name: 'Load' }));
	expect(loadModel).toHaveBeenCalledWith('a', null, false);
});

it.each(['tight', 'tooLarge'] as const)(
	'one that is %s is loaded only after its risk was said',
	async (verdict) => {
		const loadModel = panel({ verdict });
		await fireEvent.click(await screen.findByRole('button', { name: 'Load anyway…' }));
		expect(loadModel).not.toHaveBeenCalled();
		expect(screen.getByRole('alertdialog').textContent).toMatch(/memory/);
		await fireEvent.click(screen.getByRole('button', { name: 'Load it all the same' }));
		expect(loadModel).toHaveBeenCalledWith('a', null, true);
	},
);

it.each([
	[false, 'They end when the new model is ready'],
	[true, 'Loading ends them at once'],
])(
	'answers under way are counted, and it is said when they end (first out: %s)',
	async (replacesFirst, words) => {
		panel({ replacesFirst }, 3);
		const said = await screen.findByTestId('answers-end');
		expect(said.textContent).toContain('3 answers are under way');
		expect(said.textContent).toContain(words);
	},
);

it('every part of the sum is shown', async () => {
	panel({});
	const sum = (await screen.findByTestId('fit-bar')).textContent.replace(/\s+/g, ' ');
	for (const part of [
		'2.0 GiB',
		'512 MiB × 4 tabs',
		'256 MiB',
		'1.5 GiB',
		'5.8 GiB',
		'9.0 GiB of 16.0 GiB',
	]) {
		expect(sum).toContain(part);
	}
});
