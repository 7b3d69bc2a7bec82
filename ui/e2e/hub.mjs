// A hub on loopback with one model: what the real app's test searches and downloads from.
import { createHash } from 'node:crypto';
import { createReadStream, readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { Transform } from 'node:stream';

export const repo = 'tests/small-model';
const commit = '0123456789abcdef0123456789abcdef01234567';

/** Slow enough for a person to press Pause. */
const bytesPerSecond = 24 << 20;

function slowed() {
	return new Transform({
		transform(chunk, _encoding, done) {
			setTimeout(() => done(null, chunk), (chunk.length / bytesPerSecond) * 1000);
		},
	});
}

function filesOf(folder) {
	return readdirSync(folder).map((path) => {
		const full = join(folder, path);
		return {
			path,
			full,
			size: statSync(full).size,
			sha256: createHash('sha256').update(readFileSync(full)).digest('hex'),
		};
	});
}

/** Serves the files of `folder` as a repository. */
export async function startHub(folder) {
	const files = filesOf(folder);
	const json = (response, body) => {
		response.setHeader('content-type', 'application/json');
		response.end(JSON.stringify(body));
	};
	const server = createServer((request, response) => {
		const { pathname } = new URL(request.url, 'http://hub');
		if (pathname === '/api/models') {
			json(response, [
				{ id: repo, downloads: 1200, likes: 7, lastModified: '2026-01-02T03:04:05.000Z', tags: ['mlx'] },
			]);
			return;
		}
		if (pathname.startsWith(`/api/models/${repo}/revision/`)) {
			const siblings = files.map(({ path, size, sha256 }) => ({
				rfilename: path,
				size,
				lfs: { sha256, size },
			}));
			json(response, { id: repo, sha: commit, siblings, tags: ['license:apache-2.0'] });
			return;
		}
		const file = files.find(({ path }) => pathname === `/${repo}/resolve/${commit}/${path}`);
		if (!file) {
			response.statusCode = 404;
			response.end();
			return;
		}
		const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
		response.statusCode = start > 0 ? 206 : 200;
		if (start > 0) response.setHeader('content-range', `bytes ${start}-${file.size - 1}/${file.size}`);
		response.setHeader('content-length', file.size - start);
		response.setHeader('etag', `"${file.sha256}"`);
		response.setHeader('x-repo-commit', commit);
		createReadStream(file.full, { start }).pipe(slowed()).pipe(response);
	});
	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}
