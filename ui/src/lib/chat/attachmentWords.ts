import { count, listed, tokens as tokenCount } from '../format';
import { t } from '../i18n/language.svelte';
import type { AttachmentKind, AttachmentView } from '../ipc/wire';

/** What stands for a kind on a chip. */
export function kindWord(kind: AttachmentKind): string {
	const words: Record<AttachmentKind, string> = {
		text: t('attachments:kindText'),
		markdown: 'MD',
		code: t('attachments:kindCode'),
		pdf: 'PDF',
	};
	return words[kind];
}

/** "7 pages, 810 tokens"; characters where no model says how many tokens it is. */
export function attachmentWords({ pages, tokens, chars }: AttachmentView): string {
	const size =
		tokens === null ? t('attachments:chars', { count: chars, shown: count(chars) }) : tokenCount(tokens);
	return pages === null ? size : listed([t('attachments:pages', { count: pages }), size]);
}
