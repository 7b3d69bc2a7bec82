// @vitest-environment node
import { expect, it } from 'vitest';
import { bootWords } from './bootWords';

it.each([
	[['de-CH', 'en'], 'Neu laden'],
	[['fr', 'zh-CN'], '重新载入'],
	[['en-GB', 'de'], 'Reload'],
	[['C'], 'Reload'],
	[[], 'Reload'],
])('a window for %j that cannot be drawn offers “%s”', (wished, reload) => {
	expect(bootWords(wished).reload).toBe(reload);
});
