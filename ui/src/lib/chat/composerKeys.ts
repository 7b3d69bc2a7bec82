/**
 * Whether a key sends the message: Enter, without Shift, outside of an input method.
 *
 * WebKit ends a composition before the Enter that confirms it arrives: that key has `isComposing` false and the
 * key code 229.
 */
export function isSendKey(
	event: Pick<KeyboardEvent, 'key' | 'shiftKey' | 'isComposing' | 'keyCode'>,
): boolean {
	return event.key === 'Enter' && !event.shiftKey && !event.isComposing && event.keyCode !== 229;
}
