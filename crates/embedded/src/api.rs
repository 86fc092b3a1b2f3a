//! The embedded Kubernetes API server.
//!
//! ```text
//!   kube::Client ──► ApiServer (tower service, HTTP) ──┐
//!   kubectl ──► a port ──► the same service ───────────┤──► State: registry, kinds, store
//!   scheduler, controllers, kubelets ──► Local ────────┘        │
//!                                                               └──► watchers, event log
//! ```
//!
//! Everything that changes the world happens in `State`, synchronously, behind one mutex that is
//! never held over an await. Watchers receive shared pointers to the committed objects.

mod base64;
mod body;
mod bootstrap;
mod custom;
mod delete;
mod evict;
mod field;
mod fields;
mod gojson;
mod http;
mod kinds;
mod local;
mod log;
mod meta;
mod names;
mod protobuf;
mod registry;
mod scale;
mod schemas;
mod selector;
mod server;
mod state;
mod status;
mod store;
mod table;
mod view;
mod write;

pub use delete::{DeleteOptions, Preconditions, Propagation};
pub use http::{Port, ResponseBody, Verb};
pub use local::{Change, ChangeKind, Local, ResourceInfo, Watch};
pub use server::ApiServer;
pub(crate) use state::stream as random_stream;
pub use state::{Asked, Commit, Options};
pub use status::{Cause, Details, Status};
