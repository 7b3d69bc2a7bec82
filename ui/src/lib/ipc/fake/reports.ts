import { CommandFailure, type Backend } from '../backend';
import type { BenchmarkArm, BenchmarkProgress, BenchmarkReport, GateMode } from '../wire';
import type { ScriptedParts } from './parts';
import { checkScripted } from './structureCheck';

type Calls = Pick<
	Backend,
	| 'checkStructure'
	| 'runBenchmark'
	| 'cancelBenchmark'
	| 'saveBenchmarkReport'
	| 'readDiagnostics'
	| 'saveDiagnostics'
	| 'noteAlive'
	| 'showMenu'
>;

const plan: { batchRows: number; gateMode: GateMode; hasJsonRow: boolean }[] = [
	...[1, 2, 4, 8].map((batchRows) => ({ batchRows, gateMode: 'split' as const, hasJsonRow: false })),
	...(['strict', 'split', 'folded'] as const).map((gateMode) => ({
		batchRows: 4,
		gateMode,
		hasJsonRow: true,
	})),
];
const trials = 3;
const runMs = 60;

export function reportCalls({ call, scenario, engine }: ScriptedParts): Calls {
	let isCancelled = false;
	let latest: BenchmarkReport | null = null;

	function write(path: string) {
		if (scenario.transferFails)
			throw new CommandFailure(scenario.transferFails, `${path}: no space left (scripted)`);
	}

	async function runBenchmark(
		onProgress: (progress: BenchmarkProgress) => void,
	): Promise<BenchmarkReport | null> {
		if (engine.status().rows.length > 0) throw new CommandFailure('benchmarkBusy', '1 answer is running');
		isCancelled = false;
		const runs = plan.flatMap((arm) => Array.from({ length: trials + 1 }, () => arm));
		for (const [doneRuns, { batchRows, gateMode }] of runs.entries()) {
			onProgress({ doneRuns, totalRuns: runs.length, batchRows, gateMode });
			await new Promise((resolve) => setTimeout(resolve, runMs));
			if (isCancelled) return null;
		}
		const arms = plan.map((arm, i) => measured(arm, i));
		latest = { atMs: Date.now(), arms, markdown: markdownOf(arms) };
		return latest;
	}

	return {
		checkStructure: (output) => call(() => checkScripted(output)),
		runBenchmark,
		cancelBenchmark: () => call(() => void (isCancelled = true)),
		saveBenchmarkReport: (path) =>
			call(() => {
				if (!latest) throw new CommandFailure('transferFailed', 'there is no report yet');
				write(path);
			}),
		readDiagnostics: () => call(() => diagnostics),
		saveDiagnostics: (path) => call(() => write(path)),
		noteAlive: async () => {},
		showMenu: async () => {},
	};
}

function measured(arm: (typeof plan)[number], index: number): BenchmarkArm {
	const ofMode = arm.hasJsonRow ? { strict: 0.72, split: 0.93, folded: 0.99 }[arm.gateMode] : 1;
	const totalTokS = 38 * arm.batchRows ** 0.82 * ofMode;
	return {
		...arm,
		trials,
		totalTokS,
		minTokS: totalTokS * 0.97,
		maxTokS: totalTokS * 1.02,
		itlMsP50: (1000 * arm.batchRows) / totalTokS,
		itlMsP95: (1140 * arm.batchRows) / totalTokS,
		ttftMsP50: 90 + index * 21,
	};
}

function markdownOf(arms: readonly BenchmarkArm[]): string {
	const rows = arms.map(
		({ batchRows, gateMode, totalTokS, itlMsP50 }) =>
			`| ${batchRows} | ${gateMode} | ${totalTokS.toFixed(1)} | ${itlMsP50.toFixed(1)} |`,
	);
	return [
		'# Braid benchmark',
		'',
		'Scripted machine, scripted model, 4-bit, Braid 0.1.0.',
		'',
		'| rows | mode | tok/s | ms per token |',
		'| --- | --- | --- | --- |',
		...rows,
		'',
	].join('\n');
}

const diagnostics = `# Braid diagnostics

- Braid 0.1.0, Linux 6.8, x86-64, 2 cores
- Device: CPU, 16 GiB of memory
- Model: starter, llama, 4-bit, context 2,048
- History: schema 7, 4 conversations, 12 messages

## Recent errors

None.

## Log

2026-11-30T05:10:02Z INFO the engine is ready
`;
