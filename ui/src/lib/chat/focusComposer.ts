/** Frames after which a tab that is slow to open is given up. */
const mostFrames = 60;

/** Puts the caret where a message is written, once the tab that is being opened shows it. */
export function focusComposer() {
	let frames = 0;
	const look = () => {
		const field = document.querySelector<HTMLElement>('[data-testid="composer"]');
		// Whoever opened something over the window meanwhile keeps the focus.
		if (document.querySelector('dialog[open]')) return;
		if (field) field.focus();
		else if ((frames += 1) < mostFrames) requestAnimationFrame(look);
	};
	requestAnimationFrame(look);
}
