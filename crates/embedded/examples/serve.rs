//! Serves a fresh embedded cluster on a port, for looking at it with kubectl:
//!
//! ```text
//! cargo run -p joiner-sim --example serve -- 127.0.0.1:8001
//! kubectl --server http://127.0.0.1:8001 get namespaces
//! ```

use joiner_embedded::{
    api::{ApiServer, Options},
    clock::Clock,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:8001".to_owned());
    let server = ApiServer::new(Clock::wall(), &Options::default());
    let port = server.listen(address.parse()?).await?;
    eprintln!("serving on http://{}", port.address());
    tokio::signal::ctrl_c().await?;
    Ok(())
}
