import type { PathMark } from '../engine/paths';
import type { TabPhase } from '../engine/tabPhase';

/** A tab as the strip draws it. */
export interface TabItem {
	id: string;
	title: string;
	phase: TabPhase;
	mark: PathMark | null;
	/** Whether its latest answer ended while nobody looked. */
	isUnread: boolean;
}
