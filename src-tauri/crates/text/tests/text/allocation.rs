//! Counts what the current thread allocates.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator with an account per thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it came; the account touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is the system's as well.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // Threads end after their account does.
        let _ = LIVE_BYTES.try_with(|live| live.set(live.get().saturating_sub(layout.size())));
        // SAFETY: `pointer` came from the system's allocator, by `alloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn grow(bytes: usize) {
    let live = LIVE_BYTES.try_with(|live| {
        live.set(live.get().saturating_add(bytes));
        live.get()
    });
    let _ = PEAK_BYTES.try_with(|peak| peak.set(peak.get().max(live.unwrap_or(0))));
}

/// Runs `work` and says by how many bytes the thread's memory grew at most.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE_BYTES.get();
    PEAK_BYTES.set(before);
    let result = work();
    (result, PEAK_BYTES.get().saturating_sub(before))
}
