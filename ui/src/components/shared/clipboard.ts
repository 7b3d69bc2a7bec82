/** Puts text on the clipboard. Returns whether it worked. */
export async function copyText(text: string): Promise<boolean> {
	try {
		await navigator.clipboard.writeText(text);
		return true;
	} catch {
		return copyBySelection(text);
	}
}

/** For web views that refuse the clipboard to pages. */
function copyBySelection(text: string): boolean {
	const area = document.createElement('textarea');
	const focused = document.activeElement;
	area.value = text;
	area.setAttribute('aria-hidden', 'true');
	document.body.append(area);
	area.select();
	const isCopied = document.execCommand('copy');
	area.remove();
	if (focused instanceof HTMLElement) focused.focus();
	return isCopied;
}
