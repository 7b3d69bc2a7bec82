// The app's program and its processes, on a data folder of their own.
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A program that starts the app on a data folder: WebDriver hands no environment to what it starts. */
export function programFor(app, dataDir) {
	mkdirSync(dataDir, { recursive: true });
	const path = join(dataDir, 'start-braid.sh');
	const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
	writeFileSync(path, `#!/bin/sh\nBRAID_DATA_DIR=${quoted(dataDir)} exec ${quoted(app)} "$@"\n`);
	chmodSync(path, 0o755);
	return path;
}

/** Processes of the app that run on a data folder. */
export function pidsOf(app, dataDir) {
	return readdirSync('/proc')
		.filter((name) => /^\d+$/.test(name))
		.map(Number)
		.filter((pid) => {
			try {
				const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
				const [program] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
				return environment.includes(`BRAID_DATA_DIR=${dataDir}`) && program === app;
			} catch {
				// It is gone, or somebody else's.
				return false;
			}
		});
}
