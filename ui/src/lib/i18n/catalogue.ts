import activity from '../../locales/en/activity.json';
import answerer from '../../locales/en/answerer.json';
import answers from '../../locales/en/answers.json';
import app from '../../locales/en/app.json';
import attachments from '../../locales/en/attachments.json';
import benchmark from '../../locales/en/benchmark.json';
import chat from '../../locales/en/chat.json';
import commands from '../../locales/en/commands.json';
import conversations from '../../locales/en/conversations.json';
import engine from '../../locales/en/engine.json';
import errors from '../../locales/en/errors.json';
import fanOut from '../../locales/en/fanOut.json';
import lanes from '../../locales/en/lanes.json';
import markdown from '../../locales/en/markdown.json';
import menu from '../../locales/en/menu.json';
import models from '../../locales/en/models.json';
import presets from '../../locales/en/presets.json';
import reports from '../../locales/en/reports.json';
import sampling from '../../locales/en/sampling.json';
import sections from '../../locales/en/sections.json';
import servers from '../../locales/en/servers.json';
import settings from '../../locales/en/settings.json';
import structure from '../../locales/en/structure.json';
import tabs from '../../locales/en/tabs.json';
import transfer from '../../locales/en/transfer.json';
import units from '../../locales/en/units.json';
import welcome from '../../locales/en/welcome.json';

/** English words by namespace: the list that every other language is held to. One file each, one line each. */
export const english = {
	activity,
	answerer,
	answers,
	app,
	attachments,
	benchmark,
	chat,
	commands,
	conversations,
	engine,
	errors,
	fanOut,
	lanes,
	markdown,
	menu,
	models,
	presets,
	reports,
	sampling,
	sections,
	servers,
	settings,
	structure,
	tabs,
	transfer,
	units,
	welcome,
};

type Catalogue = typeof english;

type WithoutForm<Key extends string> = Key extends `${infer Base}_${'one' | 'other'}` ? Base : Key;

/** `namespace:key` of every word; plural forms count as one. */
export type WordKey = {
	[Namespace in keyof Catalogue]: `${Namespace}:${WithoutForm<keyof Catalogue[Namespace] & string>}`;
}[keyof Catalogue];

type Words = Record<string, string>;

const files = import.meta.glob<Words>('../../locales/*/*.json', { eager: true, import: 'default' });

/** Words by language and namespace: every folder of `src/locales` is a language. */
export const catalogues: Record<string, Record<string, Words>> = {};
for (const [path, words] of Object.entries(files)) {
	const [language, file] = path.split('/').slice(-2);
	if (language === undefined || file === undefined) continue;
	(catalogues[language] ??= {})[file.replace('.json', '')] = words;
}
