// @vitest-environment node
import { Linter } from 'eslint';
import svelte from 'eslint-plugin-svelte';
import ts from 'typescript-eslint';
import { expect, it } from 'vitest';
import { noBareWords } from './noBareWords.js';

function findings(code: string): number {
	const linter = new Linter();
	const rules = { 'braid/no-bare-words': 'error' } as const;
	const plugins = { braid: { rules: { 'no-bare-words': noBareWords } } };
	const languageOptions = { parserOptions: { parser: ts.parser } };
	const config = [...svelte.configs.base, { files: ['**/*.svelte'], plugins, rules, languageOptions }];
	const found = linter.verify(code, config as Linter.Config[], { filename: 'a.svelte' });
	expect(found.filter(({ fatal }) => fatal)).toEqual([]);
	return found.length;
}

it.each([
	'<p>Nothing was found.</p>',
	'<p>没有</p>',
	'<button aria-label="Close"></button>',
	'<input placeholder={isOpen ? "Write" : other} />',
	'<p title="Load {name}"></p>',
	'<p>{isOpen ? "Hide" : t("a:show")}</p>',
	'<p>{`${count} tokens`}</p>',
	'{#if isOpen}Open{/if}',
	'<script lang="ts">const option = { value: 1, label: "Small" };</script>',
	'<script lang="ts">notices.say("It is done.");</script>',
	'<script lang="ts">notices.say(`${name} is done.`);</script>',
])('finds the bare words of %s', (code) => {
	expect(findings(code)).toBe(1);
});

it.each([
	'<p>{t("chat:stop")}</p>',
	'<p class="line" data-kind="first" role="status">Braid {version} · 12 tok/s</p>',
	'<p class={isOpen ? "open" : "shut"}>{kind === "first" ? t("a:b") : t("c:d")}</p>',
	'<Callout title={t("a:b")} advice={wording.advice} />',
	'<Icon name="close" />',
	'<style>.a { content: "Word"; }</style>',
	'<script lang="ts">const a = { label: "chat:stop", kind: "first", placeholder: "{ … }" };</script>',
	'<script lang="ts">notices.say(t("a:b"), { tone: "error" });</script>',
])('finds nothing in %s', (code) => {
	expect(findings(code)).toBe(0);
});
