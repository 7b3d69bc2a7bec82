import type { Backend } from '../ipc/backend';
import { scripted } from '../ipc/fake';
import { scenarios, type Scenario } from '../ipc/fake/scenarios';

/** The scripted backend with an empty history, and single calls replaced. */
export function stubBackend(calls: Partial<Backend> = {}, scenario: Partial<Scenario> = {}): Backend {
	sessionStorage.clear();
	const fresh = scenarios['fresh'];
	if (!fresh) throw new Error('the scenario "fresh" exists');
	return { ...scripted({ ...fresh, ...scenario }), ...calls };
}
