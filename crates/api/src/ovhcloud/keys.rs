//! Names with a meaning of their own: labels, annotations, keys of Secrets.

/// Label of nodes: the first letter of the flavour, such as `b`.
pub const INSTANCE_CATEGORY_LABEL: &str = "karpenter.ovhcloud.sh/instance-category";
/// Label of nodes: the flavour without its size, such as `b3`.
pub const INSTANCE_FAMILY_LABEL: &str = "karpenter.ovhcloud.sh/instance-family";
/// Label of nodes: the size of the flavour, such as `8`.
pub const INSTANCE_SIZE_LABEL: &str = "karpenter.ovhcloud.sh/instance-size";
/// Label of nodes: cores.
pub const INSTANCE_CPU_LABEL: &str = "karpenter.ovhcloud.sh/instance-cpu";
/// Label of nodes: memory in MiB.
pub const INSTANCE_MEMORY_LABEL: &str = "karpenter.ovhcloud.sh/instance-memory";
/// Annotation of claims: id of the node pool.
pub const POOL_ID_ANNOTATION: &str = "karpenter.ovhcloud.sh/pool-id";
/// Annotation of claims: id of the node.
pub const NODE_ID_ANNOTATION: &str = "karpenter.ovhcloud.sh/node-id";
/// Annotation of claims: name of the node.
pub const NODE_NAME_ANNOTATION: &str = "karpenter.ovhcloud.sh/node-name";

/// Key of the Secret: the application key.
pub const APPLICATION_KEY: &str = "applicationKey";
/// Key of the Secret: the application secret.
pub const APPLICATION_SECRET: &str = "applicationSecret";
/// Key of the Secret: the consumer key.
pub const CONSUMER_KEY: &str = "consumerKey";
