//! The server on a port, for kubectl and the demo.

use std::{io, net::SocketAddr};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::api::ApiServer;

/// A bound port. Dropping it stops listening; connections end with their clients.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Port {
    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ApiServer {
    /// Serves plain HTTP on an address; port 0 picks a free one.
    pub async fn listen(&self, address: SocketAddr) -> io::Result<Port> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let server = self.clone();
        let task = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let service = TowerToHyperService::new(server.clone());
                        tokio::spawn(async move {
                            let io = TokioIo::new(stream);
                            let served = Builder::new(TokioExecutor::new())
                                .serve_connection_with_upgrades(io, service)
                                .await;
                            if let Err(error) = served {
                                tracing::debug!(%error, "connection ended early");
                            }
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "could not accept a connection");
                        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    }
                }
            }
        });
        Ok(Port { address, task })
    }
}
