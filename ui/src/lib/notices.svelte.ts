/** A short word at the bottom of the window, with at most one thing to do about it. */
export interface Notice {
	key: number;
	text: string;
	detail: string | null;
	tone: 'plain' | 'error';
	action: { label: string; run: () => void } | null;
}

const shownForMs = { plain: 8000, error: 15_000 };

/** Notices on screen, oldest first. */
export class Notices {
	all = $state.raw<Notice[]>([]);
	#nextKey = 0;

	say(text: string, options: Partial<Pick<Notice, 'detail' | 'tone' | 'action'>> = {}) {
		const tone = options.tone ?? 'plain';
		const notice = { detail: null, action: null, ...options, key: this.#nextKey++, text, tone };
		this.all = [...this.all.slice(-2), notice];
		setTimeout(() => this.dismiss(notice.key), shownForMs[tone]);
	}

	dismiss(key: number) {
		this.all = this.all.filter((notice) => notice.key !== key);
	}
}
