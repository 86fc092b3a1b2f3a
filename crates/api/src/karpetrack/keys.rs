//! Names with a meaning of their own: finalizers, labels, annotations.

/// Finalizer of SpotNodes: drained and given back before they go.
pub const SPOTNODE_FINALIZER: &str = "karpetrack.io/spotnode";
/// Label of SpotNodes and nodes: the SpotNodePool.
pub const NODEPOOL_LABEL: &str = "karpetrack.io/nodepool";
/// Label of SpotNodes and nodes: the region.
pub const REGION_LABEL: &str = "karpetrack.io/region";
/// Label of SpotNodes and nodes: the category, as in `general-purpose`.
pub const CATEGORY_LABEL: &str = "karpetrack.io/category";
/// Label of server pools and nodes that are ours, `true`.
pub const MANAGED_LABEL: &str = "karpetrack.io/managed";
/// Label of server pools and nodes: the server class.
pub const SERVER_CLASS_LABEL: &str = "karpetrack.io/server-class";
/// Label of a SpotNode that stands in for another: which.
pub const REPLACES_LABEL: &str = "karpetrack.io/replaces";
/// Label of a SpotNode that stands in for another: why.
pub const REASON_LABEL: &str = "karpetrack.io/reason";
/// Annotation of SpotNodes: since when nothing runs there.
pub const EMPTY_SINCE_ANNOTATION: &str = "karpetrack.io/empty-since";
/// Annotation of a SpotNode that another stands in for: which.
pub const REPLACED_BY_ANNOTATION: &str = "karpetrack.io/replaced-by";
/// Annotation of SpotNodes: why they go.
pub const REMOVAL_REASON_ANNOTATION: &str = "karpetrack.io/removal-reason";
