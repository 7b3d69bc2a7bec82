interface BootWords {
	title: string;
	advice: string;
	reload: string;
}

const english: BootWords = {
	title: 'Braid’s window could not be drawn',
	advice: 'Your messages are saved. Reload to try again; the details below help a report.',
	reload: 'Reload',
};

/** By the first part of a language's tag. Not in the catalogue: that may be what could not be loaded. */
const translated: Record<string, BootWords> = {
	en: english,
	de: {
		title: 'Das Fenster von Braid konnte nicht gezeichnet werden',
		advice:
			'Die Nachrichten sind gespeichert. Neu laden, um es noch einmal zu versuchen; die Einzelheiten unten helfen in einem Bericht.',
		reload: 'Neu laden',
	},
	zh: {
		title: '无法绘制 Braid 窗口',
		advice: '消息已保存。请重新载入以重试；可将下面的详情附在报告中。',
		reload: '重新载入',
	},
};

/** What is said when nothing else could be loaded, in the first language of `wished` that there are words for. */
export function bootWords(wished: readonly string[]): BootWords {
	for (const tag of wished) {
		const words = translated[tag.toLowerCase().split(/[-_]/)[0] ?? ''];
		if (words) return words;
	}
	return english;
}
