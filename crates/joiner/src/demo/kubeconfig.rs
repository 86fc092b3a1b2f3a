//! The kubeconfig of the embedded cluster.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::json;

use crate::failure::Failure;

/// Writes a kubeconfig that leads to `address`. JSON is YAML too, and kubectl reads it as such.
pub(crate) fn write(path: &Path, address: SocketAddr) -> Result<(), Failure> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "joiner-demo", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "joiner-demo", "user": {"token": "demo"}}],
        "contexts": [{"name": "joiner-demo", "context": {"cluster": "joiner-demo", "user": "joiner-demo"}}],
        "current-context": "joiner-demo",
    });
    std::fs::write(path, format!("{config:#}\n")).map_err(|source| Failure::Write {
        path: path.to_owned(),
        source,
    })
}
