//! model-hub from the outside: what an import writes, what it refuses, what the catalogue lists.

mod allocation;
mod catalog;
mod damage;
mod reference;
mod refusals;
mod synthetic;
