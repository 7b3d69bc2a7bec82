import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Finding {
	id: string;
	impact: string;
	where: string[];
}

/** Serious and critical findings of axe on the page as it is now. */
export async function seriousFindings(page: Page): Promise<Finding[]> {
	await page.evaluate(axe);
	return page.evaluate(async () => {
		const run = (window as unknown as { axe: { run(): Promise<{ violations: AxeViolation[] }> } }).axe.run();
		interface AxeViolation {
			id: string;
			impact: string;
			nodes: { html: string; failureSummary: string }[];
		}
		const { violations } = await run;
		return violations
			.filter(({ impact }) => impact === 'serious' || impact === 'critical')
			.map(({ id, impact, nodes }) => ({
				id,
				impact,
				where: nodes.map((node) => `${node.html.slice(0, 120)} ${node.failureSummary.slice(0, 200)}`),
			}));
	});
}
