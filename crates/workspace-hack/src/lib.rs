//! No code: the features of dependencies stand in `Cargo.toml`.
