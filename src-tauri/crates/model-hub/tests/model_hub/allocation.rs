//! Measures the largest single allocation of a piece of code, so that "does not over-allocate" is a tested claim.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

struct Measured;

thread_local! {
    static LARGEST_BYTES: Cell<usize> = const { Cell::new(0) };
}

fn note(bytes: usize) {
    // Fails only while the thread ends, when nobody measures any more.
    let _ = LARGEST_BYTES.try_with(|largest| largest.set(largest.get().max(bytes)));
}

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Measured {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        note(new_bytes);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, new_bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
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
