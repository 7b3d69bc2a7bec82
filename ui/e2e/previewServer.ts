import { preview } from 'vite';
import type { TestProject } from 'vitest/node';

declare module 'vitest' {
	interface ProvidedContext {
		baseUrl: string;
	}
}

/** Serves the fake build on a free port, with the app's content security policy. */
export default async function setup(project: TestProject) {
	const server = await preview({
		mode: 'fake',
		build: { outDir: 'test-results/fake-app' },
		preview: { port: 0, host: '127.0.0.1' },
	});
	const address = server.httpServer.address();
	if (address === null || typeof address === 'string') throw new Error('preview listens on no port');
	project.provide('baseUrl', `http://127.0.0.1:${address.port}`);
	return () => server.close();
}
