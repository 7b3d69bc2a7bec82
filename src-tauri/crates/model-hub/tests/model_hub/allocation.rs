//! Measures what a piece of code allocates, so that "does not over-allocate" is a tested claim.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

struct Measured;

thread_local! {
    static LARGEST_BYTES: Cell<usize> = const { Cell::new(0) };
    /// Allocated less freed by this thread; below zero where it frees what others allocated.
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<i64> = const { Cell::new(0) };
}

fn note(allocated: usize, freed: usize) {
    // Fails only while the thread ends, when nobody measures any more.
    let _ = LARGEST_BYTES.try_with(|largest| largest.set(largest.get().max(allocated)));
    let live = LIVE_BYTES.try_with(|live| {
        live.set(live.get() + allocated as i64 - freed as i64);
        live.get()
    });
    if let Ok(live) = live {
        let _ = PEAK_BYTES.try_with(|peak| peak.set(peak.get().max(live)));
    }
}

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Measured {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        note(new_bytes, layout.size());
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, new_bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Measured = Measured;

/// Runs `work` and returns the largest single allocation that this thread made meanwhile, in bytes.
pub fn largest_during(work: impl FnOnce()) -> usize {
    LARGEST_BYTES.set(0);
    work();
    LARGEST_BYTES.get()
}

/// Runs `work` and returns its result with the most bytes that this thread held at once because of it.
pub fn peak_during<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = LIVE_BYTES.get();
    PEAK_BYTES.set(before);
    let outcome = work();
    (outcome, (PEAK_BYTES.get() - before).max(0).unsigned_abs())
}
