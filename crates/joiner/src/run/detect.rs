//! Which families of custom resources the cluster has.

use std::time::Duration;

use joiner_api::Dialect as Family;
use kube::Client;
use tracing::{info, warn};

use crate::failure::Failure;
use crate::wiring::{SERVED, Served};

/// How often to look while there is nothing to do, and how often while there is.
const MISSING: Duration = Duration::from_secs(2);
const MORE: Duration = Duration::from_secs(30);
/// How often to say that we still wait.
const SAY_EVERY: u32 = 15;

/// What is to be served.
pub(super) struct Wanted {
    families: Vec<&'static Served>,
    /// Whether each of them must be there, or those that are will do.
    all: bool,
}

impl Wanted {
    /// These, or whatever is installed. SpotNodePools need credentials that are in no object: who asks for them without
    /// is told so, and who does not ask is not kept from the rest.
    pub(super) fn new(
        families: &[Family],
        credentials: Result<(), String>,
    ) -> Result<Self, Failure> {
        if families.is_empty() {
            let mut families: Vec<&'static Served> = SERVED.iter().collect();
            if let Err(said) = credentials {
                info!(%said, "SpotNodePools are not served");
                families.retain(|one| one.family != Family::Karpetrack);
            }
            return Ok(Wanted {
                families,
                all: false,
            });
        }
        if families.contains(&Family::Karpetrack) {
            credentials.map_err(Failure::Usage)?;
        }
        let served = |family: &Family| {
            let found = SERVED.iter().find(|one| one.family == *family);
            found.ok_or_else(|| Failure::Usage(not_served(*family)))
        };
        Ok(Wanted {
            families: families.iter().map(served).collect::<Result<_, _>>()?,
            all: true,
        })
    }

    /// Waits until there is something to serve.
    pub(super) async fn installed(&self, client: &Client) -> Vec<&'static Served> {
        let mut round = 0;
        loop {
            if let Some(found) = self.found(client).await
                && self.enough(&found)
            {
                return found;
            }
            if round % SAY_EVERY == 0 {
                let names: Vec<&str> = self.families.iter().map(|one| one.family.name()).collect();
                info!(
                    families = names.join(", "),
                    "waiting for custom resources to be installed: make install, or joiner crds | kubectl apply -f -"
                );
            }
            round += 1;
            tokio::time::sleep(MISSING).await;
        }
    }

    /// Waits until there is more to serve than these.
    pub(super) async fn more_than(&self, known: &[&'static Served], client: &Client) {
        loop {
            tokio::time::sleep(MORE).await;
            if known.len() < self.families.len()
                && let Some(found) = self.found(client).await
                && found.len() > known.len()
            {
                return;
            }
        }
    }

    fn enough(&self, found: &[&'static Served]) -> bool {
        if self.all {
            found.len() == self.families.len()
        } else {
            !found.is_empty()
        }
    }

    /// Which families are installed; `None` while that cannot be told of every one of them. A family whose machines run
    /// must not be taken for one that is not there.
    async fn found(&self, client: &Client) -> Option<Vec<&'static Served>> {
        let mut found = Vec::new();
        for served in &self.families {
            if is_installed(served, client).await? {
                found.push(*served);
            }
        }
        Some(found)
    }
}

/// Whether a family is installed; `None` if the API server does not say. Only a 404 says no.
async fn is_installed(served: &Served, client: &Client) -> Option<bool> {
    let has = match client.list_api_group_resources(served.group_version).await {
        Ok(list) => list.resources,
        Err(kube::Error::Api(status)) if status.code == 404 => return Some(false),
        Err(error) => {
            warn!(group = served.group_version, %error, "the API server does not say what is installed: it is asked again");
            return None;
        }
    };
    let all = served
        .plurals
        .iter()
        .all(|plural| has.iter().any(|one| one.name == *plural));
    Some(all)
}

fn not_served(family: Family) -> String {
    let served: Vec<&str> = SERVED.iter().map(|one| one.family.name()).collect();
    format!(
        "--dialect {family} cannot be run yet: choose from {}",
        served.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// An API server that has the first family and answers about the second with `status`.
    fn server(status: u16) -> Client {
        let answer = move |request: Request<Body>| async move {
            let known = request.uri().path().contains("karpenter.sh");
            let resources = r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"karpenter.sh/v1","resources":[
                {"name":"nodepools","singularName":"","namespaced":false,"kind":"NodePool","verbs":[]},
                {"name":"nodeclaims","singularName":"","namespaced":false,"kind":"NodeClaim","verbs":[]}]}"#;
            let refused = format!(
                r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","code":{status}}}"#
            );
            let (status, body) = if known {
                (200, resources.to_owned())
            } else {
                (status, refused)
            };
            let answer = Response::builder()
                .status(status)
                .body(Body::from(body.into_bytes()));
            Ok::<_, Infallible>(answer.unwrap())
        };
        Client::new(tower::service_fn(answer), "default")
    }

    #[tokio::test]
    async fn a_family_that_cannot_be_asked_for_is_not_taken_for_absent() {
        let wanted = Wanted::new(&[], Ok(())).unwrap();
        let names = |found: Option<Vec<&'static Served>>| {
            found.map(|all| all.iter().map(|one| one.family).collect::<Vec<_>>())
        };
        assert_eq!(names(wanted.found(&server(503)).await), None);
        let found = names(wanted.found(&server(404)).await);
        assert_eq!(found, Some(vec![Family::Karpenter]));
    }
}
