//! Objects of Karpenter's, at the API server.

use joiner_core::leftover::InUse;
use joiner_core::name::Name;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use super::ClassVersion;
use crate::edge::clients::WriteError;
use crate::operator::Seat;

/// Who writes; the name that users' tools see in managedFields.
const MANAGER: &str = "leftover";

/// What the cluster serves of Karpenter for AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    /// Versions of `EC2NodeClass`, the newest first.
    pub(super) classes: Vec<ClassVersion>,
    /// Whether NodePool v1 is there.
    pub(super) pools: bool,
}

/// Asks the API server.
pub(super) async fn served(client: &Client) -> Result<Served, kube::Error> {
    let groups = client.list_api_groups().await?;
    let versions = |name: &str| -> Vec<String> {
        let group = groups.groups.iter().find(|one| one.name == name);
        let versions = group.iter().flat_map(|one| &one.versions);
        versions.map(|one| one.version.clone()).collect()
    };
    let classes = versions("karpenter.k8s.aws");
    let both = [ClassVersion::V1, ClassVersion::V1beta1];
    let has = |version: &ClassVersion| classes.iter().any(|one| one == version.name());
    Ok(Served {
        classes: both.into_iter().filter(has).collect(),
        pools: versions("karpenter.sh").iter().any(|one| one == "v1"),
    })
}

fn resource(api_version: &str, kind: &str, plural: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// `NodePools`.
pub(super) fn pools(client: Client) -> Api<DynamicObject> {
    Api::all_with(
        client,
        &resource("karpenter.sh/v1", "NodePool", "nodepools"),
    )
}

/// `EC2NodeClasses`.
pub(super) fn classes(client: Client, version: ClassVersion) -> Api<DynamicObject> {
    let api_version = format!("karpenter.k8s.aws/{}", version.name());
    Api::all_with(
        client,
        &resource(&api_version, "EC2NodeClass", "ec2nodeclasses"),
    )
}

/// What nodes of a NodePool are.
pub(super) async fn in_use(client: &Client, pool: &str) -> Result<(InUse, usize), kube::Error> {
    let api: Api<DynamicObject> = Api::all_with(
        client.clone(),
        &resource("karpenter.sh/v1", "NodeClaim", "nodeclaims"),
    );
    let list = ListParams::default().labels(&format!("karpenter.sh/nodepool={pool}"));
    let claims = match api.list(&list).await {
        Ok(claims) => claims.items,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut in_use = InUse::default();
    for claim in &claims {
        let label = |key: &str| claim.labels().get(key).map(|one| Name::from(one.as_str()));
        in_use
            .types
            .extend(label("node.kubernetes.io/instance-type"));
        in_use.zones.extend(label("topology.kubernetes.io/zone"));
    }
    Ok((in_use, claims.len()))
}

/// Applies an object unless it is there already as it should be. An object of that name that the pool does not own is
/// left alone.
pub(super) async fn apply(
    seat: &Seat,
    reads: &Api<DynamicObject>,
    writes: &Api<DynamicObject>,
    wanted: &Value,
    owner: &str,
    last: Option<&Value>,
) -> Result<bool, WriteError> {
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let there = reads.get_opt(name).await?;
    if let Some(there) = &there {
        let owned = there.owner_references().iter().any(|one| one.uid == owner);
        if !owned {
            let kind = wanted["kind"].as_str().unwrap_or_default();
            return Err(WriteError::Refused(format!(
                "{kind} {name} exists and belongs to something else: rename the LeftoverNodePool, or delete that object"
            )));
        }
        let value = serde_json::to_value(there).unwrap_or_default();
        if last == Some(wanted) && covers(&value["spec"], &wanted["spec"]) {
            return Ok(false);
        }
    }
    if !seat.may_act() {
        return Err(WriteError::NotLeader);
    }
    let mut wanted = wanted.clone();
    let mut parameters = PatchParams::apply(MANAGER);
    if let Some(there) = &there {
        // This very object, not one that has taken its name meanwhile.
        wanted["metadata"]["uid"] = there.metadata.uid.clone().into();
        parameters = parameters.force();
    }
    writes
        .patch(name, &parameters, &Patch::Apply(&wanted))
        .await?;
    Ok(true)
}

/// Deletes an object that the pool owns, this very one; says whether it was there.
pub(super) async fn delete(
    reads: &Api<DynamicObject>,
    writes: &Api<DynamicObject>,
    name: &str,
    owner: &str,
) -> Result<bool, WriteError> {
    let Some(there) = reads.get_opt(name).await? else {
        return Ok(false);
    };
    if there.metadata.deletion_timestamp.is_some()
        || !there.owner_references().iter().any(|one| one.uid == owner)
    {
        return Ok(false);
    }
    let exactly = DeleteParams::default().preconditions(Preconditions {
        uid: there.metadata.uid.clone(),
        resource_version: None,
    });
    writes.delete(name, &exactly).await?;
    Ok(true)
}

/// Whether everything that is wanted is there; more may be, from others.
fn covers(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| there.get(key).is_some_and(|has| covers(has, value))),
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(a, b)| covers(a, b))
        }
        (there, wanted) => there == wanted,
    }
}
