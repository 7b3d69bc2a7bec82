/** A tab's place in the strip, in pixels. */
export interface Box {
	left: number;
	width: number;
}

/**
 * Where a dragged tab belongs: the index that it would have if it were let go now. `boxes` are the tabs in their
 * order, the dragged one at `from` where it lay before; `middle` is where its middle is now.
 */
export function placeUnder(boxes: readonly Box[], from: number, middle: number): number {
	const passed = (box: Box, i: number) => {
		const centre = box.left + box.width / 2;
		return i < from ? middle > centre : i > from && middle > centre;
	};
	const before = boxes.slice(0, from).filter(passed).length;
	const after = boxes.filter((box, i) => i > from && passed(box, i)).length;
	return before < from ? before : from + after;
}
