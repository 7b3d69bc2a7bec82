import { mount } from 'svelte';
import App from './App.svelte';
import { UiFailure } from './lib/failure/uiFailure.svelte';
import type { Backend } from './lib/ipc/backend';
import { Activity, withActivity } from './lib/ipc/activity.svelte';

/** Draws the app. */
export function boot(backend: Backend) {
	const target = document.querySelector('#app');
	if (!target) throw new Error('index.html has no #app');
	const failure = new UiFailure(backend);
	failure.listen(window);
	const activity = new Activity();
	target.replaceChildren();
	mount(App, { target, props: { backend: withActivity(backend, activity), activity, failure } });
}
