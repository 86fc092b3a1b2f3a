//! Manifests: what must be accepted is read without loss, what must be refused is refused with the field named.
//!
//! `config/samples` and `accepted.yaml` are accepted, `refused.yaml` is refused: by the checks in the types, by the
//! schemas and rules of our CRDs as the embedded API server applies them, and by a real API server
//! (`crates/joiner/tests/e2e/admission.rs`).

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are tests too"
)]

mod cases;
mod defaults;
mod embedded;
mod types;
