//! Loads of the scripted backend.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{FakeBackend, Script};
use crate::{
    BackendError,
    loading::{LoadStep, Loading},
};

/// Bytes of a scripted slice.
pub const SLICE_BYTES: u64 = 1 << 20;

/// How a scripted load goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadFault {
    /// This slice fails, counted from 0.
    Fails(u64),
    /// This slice panics.
    Panics(u64),
}

/// How far a scripted load may go. Clones share it.
#[derive(Debug, Clone)]
pub struct LoadGate(Arc<AtomicU64>);

impl LoadGate {
    /// Lets this many slices pass.
    pub fn closed_after(slices: u64) -> Self {
        Self(Arc::new(AtomicU64::new(slices)))
    }

    /// Lets no slice pass any more.
    pub fn close(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Lets all slices pass.
    pub fn open(&self) {
        self.0.store(u64::MAX, Ordering::Relaxed);
    }

    fn lets_pass(&self, slice: u64) -> bool {
        slice < self.0.load(Ordering::Relaxed)
    }
}

/// A load in slices of [`SLICE_BYTES`]. At a closed gate it reports the same progress again.
pub struct ScriptedLoad {
    script: Script,
    slices: u64,
    fault: Option<LoadFault>,
    gate: LoadGate,
    done: u64,
}

impl ScriptedLoad {
    /// Loads `script` in `slices`, without waiting or failing.
    pub fn new(script: impl Into<Script>, slices: u64) -> Self {
        let gate = LoadGate::closed_after(u64::MAX);
        Self { script: script.into(), slices, fault: None, gate, done: 0 }
    }

    /// The same load, going wrong.
    pub fn with_fault(self, fault: LoadFault) -> Self {
        Self { fault: Some(fault), ..self }
    }

    /// The same load, waiting at a gate.
    pub fn behind(self, gate: &LoadGate) -> Self {
        Self { gate: gate.clone(), ..self }
    }
}

impl Loading<FakeBackend> for ScriptedLoad {
    fn advance(&mut self) -> Result<LoadStep<FakeBackend>, BackendError> {
        let reading = |done| LoadStep::Reading {
            done_bytes: done * SLICE_BYTES,
            total_bytes: self.slices * SLICE_BYTES,
        };
        if !self.gate.lets_pass(self.done) {
            std::thread::sleep(Duration::from_millis(1));
            return Ok(reading(self.done));
        }
        match self.fault {
            Some(LoadFault::Fails(slice)) if slice == self.done => return Err("scripted: a torn file".into()),
            Some(LoadFault::Panics(slice)) if slice == self.done => panic!("scripted panic while loading"),
            _ => {}
        }
        if self.done == self.slices {
            return Ok(LoadStep::Ready(FakeBackend::new(self.script.clone())));
        }
        self.done += 1;
        Ok(reading(self.done))
    }
}
