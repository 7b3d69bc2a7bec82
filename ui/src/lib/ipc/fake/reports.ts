import type { Backend } from '../backend';
import { notScripted, type ScriptedParts } from './parts';

type Calls = Pick<
	Backend,
	| 'checkStructure'
	| 'runBenchmark'
	| 'cancelBenchmark'
	| 'saveBenchmarkReport'
	| 'readDiagnostics'
	| 'saveDiagnostics'
	| 'noteAlive'
>;

export function reportCalls(_parts: ScriptedParts): Calls {
	return {
		checkStructure: notScripted,
		runBenchmark: notScripted,
		cancelBenchmark: notScripted,
		saveBenchmarkReport: notScripted,
		readDiagnostics: notScripted,
		saveDiagnostics: notScripted,
		noteAlive: async () => {},
	};
}
