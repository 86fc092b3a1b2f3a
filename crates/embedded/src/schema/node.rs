//! A parsed schema: nodes in one arena, walked through cheap borrowed views.
//!
//! An arena, because the built-in schemas are recursive (`JSONSchemaProps`) and widely shared
//! (`ObjectMeta`, `PodSpec`): a node is stored once and an edge is an index.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::document::Document;
use super::pattern::Pattern;

/// The JSON type that a schema asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A map or a structure.
    Object,
    /// A list.
    Array,
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
}

impl Kind {
    /// The name in JSON schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Unique scalars.
    Set,
    /// Items identified by key fields.
    Map,
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// Replaced as a whole.
    Atomic,
    /// Each key on its own.
    Granular,
}

/// The place of a node in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(crate) u32);

/// What is allowed besides the named properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Additional {
    Allowed(bool),
    Schema(NodeId),
}

/// One `x-kubernetes-validations` entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) expression: String,
    pub(crate) message: Option<String>,
    pub(crate) message_expression: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) field_path: Option<String>,
    pub(crate) optional_old_self: Option<bool>,
}

/// Value validations; boxed, because most nodes have none.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) required: Vec<String>,
    pub(crate) enumeration: Vec<Value>,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) unique_items: bool,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) all_of: Vec<NodeId>,
    pub(crate) any_of: Vec<NodeId>,
    pub(crate) one_of: Vec<NodeId>,
    pub(crate) not: Option<NodeId>,
}

/// What the Go type of a definition says beyond its schema.
#[derive(Debug, Default)]
pub(crate) struct GoFacts {
    /// Scalar fields that vanish when they are zero.
    pub(crate) zero: Vec<String>,
    /// Scalar fields of a named type, e.g. `v1.RestartPolicy`.
    pub(crate) names: BTreeMap<String, String>,
}

/// One schema node.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "these are the keywords of the schema language"
)]
pub(crate) struct Node {
    /// Set when the node only points at a definition; the other fields then hold what the place adds to it.
    pub(crate) target: Option<NodeId>,
    pub(crate) kind: Option<Kind>,
    pub(crate) int_or_string: bool,
    pub(crate) nullable: bool,
    pub(crate) format: Option<String>,
    pub(crate) properties: BTreeMap<String, NodeId>,
    pub(crate) additional: Option<Additional>,
    pub(crate) items: Option<NodeId>,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded_resource: bool,
    pub(crate) list_type: Option<ListType>,
    pub(crate) list_map_keys: Vec<String>,
    pub(crate) map_type: Option<MapType>,
    pub(crate) merge_key: Option<String>,
    pub(crate) patch_strategies: Vec<String>,
    pub(crate) default: Option<Value>,
    pub(crate) limits: Option<Box<Limits>>,
    pub(crate) rules: Vec<Rule>,
    /// The definition's name, e.g. `io.k8s.api.core.v1.Pod`; only built-in definitions have one.
    pub(crate) name: Option<String>,
    pub(crate) go: Option<Box<GoFacts>>,
}

impl Node {
    pub(crate) const EMPTY: Self = Self {
        target: None,
        kind: None,
        int_or_string: false,
        nullable: false,
        format: None,
        properties: BTreeMap::new(),
        additional: None,
        items: None,
        preserve_unknown: false,
        embedded_resource: false,
        list_type: None,
        list_map_keys: Vec::new(),
        map_type: None,
        merge_key: None,
        patch_strategies: Vec::new(),
        default: None,
        limits: None,
        rules: Vec::new(),
        name: None,
        go: None,
    };
}

impl Default for Node {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// A schema: a shared document and the node in it that is the root.
#[derive(Clone, Debug)]
pub struct Schema {
    document: Arc<Document>,
    root: NodeId,
}

impl Schema {
    pub(crate) fn new(document: Arc<Document>, root: NodeId) -> Self {
        Self { document, root }
    }

    /// A schema that knows no field and keeps them all.
    pub fn open() -> Self {
        let mut document = Document::default();
        let root = document.push(Node {
            kind: Some(Kind::Object),
            preserve_unknown: true,
            ..Node::default()
        });
        Self::new(Arc::new(document), root)
    }

    /// The root node.
    pub fn root(&self) -> SchemaRef<'_> {
        self.document.view(self.root)
    }
}

/// A borrowed view of one node; copy it freely.
#[derive(Clone, Copy, Debug)]
pub struct SchemaRef<'a> {
    document: &'a Document,
    /// The node as written at its place; differs from `node` if the place refers to a definition.
    site: &'a Node,
    node: &'a Node,
}

impl<'a> SchemaRef<'a> {
    pub(crate) fn new(document: &'a Document, site: &'a Node, node: &'a Node) -> Self {
        Self {
            document,
            site,
            node,
        }
    }

    pub(crate) fn at(self, id: NodeId) -> Self {
        self.document.view(id)
    }

    /// The type, if one is given.
    pub fn kind(self) -> Option<Kind> {
        self.node.kind
    }

    /// `x-kubernetes-int-or-string`.
    pub fn int_or_string(self) -> bool {
        self.node.int_or_string
    }

    /// Whether null is a value here.
    pub fn nullable(self) -> bool {
        self.node.nullable
    }

    /// The format, e.g. `date-time`.
    pub fn format(self) -> Option<&'a str> {
        self.node.format.as_deref()
    }

    /// A named property.
    pub fn property(self, name: &str) -> Option<Self> {
        self.node.properties.get(name).map(|id| self.at(*id))
    }

    /// All named properties, in order of their names.
    pub fn properties(self) -> impl Iterator<Item = (&'a str, Self)> {
        self.node
            .properties
            .iter()
            .map(move |(name, id)| (name.as_str(), self.at(*id)))
    }

    /// Whether there are named properties.
    pub fn has_properties(self) -> bool {
        !self.node.properties.is_empty()
    }

    /// The schema of values under keys that are not named.
    pub fn additional(self) -> Option<Self> {
        match self.node.additional {
            Some(Additional::Schema(id)) => Some(self.at(id)),
            _ => None,
        }
    }

    /// Whether `additionalProperties` is written at all, as a schema or as a boolean.
    pub fn has_additional(self) -> bool {
        self.node.additional.is_some()
    }

    pub(crate) fn additional_rule(self) -> Option<Additional> {
        self.node.additional
    }

    /// The schema under a key: the named property or else `additionalProperties`.
    pub fn field(self, name: &str) -> Option<Self> {
        self.property(name).or_else(|| self.additional())
    }

    /// The schema of a list's items.
    pub fn items(self) -> Option<Self> {
        self.node.items.map(|id| self.at(id))
    }

    /// `x-kubernetes-preserve-unknown-fields`.
    pub fn preserves_unknown(self) -> bool {
        self.node.preserve_unknown
    }

    /// `x-kubernetes-embedded-resource`.
    pub fn embedded_resource(self) -> bool {
        self.node.embedded_resource
    }

    /// `x-kubernetes-list-type`.
    pub fn list_type(self) -> Option<ListType> {
        self.site.list_type.or(self.node.list_type)
    }

    /// `x-kubernetes-list-map-keys`.
    pub fn list_map_keys(self) -> &'a [String] {
        if self.site.list_map_keys.is_empty() {
            &self.node.list_map_keys
        } else {
            &self.site.list_map_keys
        }
    }

    /// `x-kubernetes-map-type`.
    pub fn map_type(self) -> Option<MapType> {
        self.site.map_type.or(self.node.map_type)
    }

    /// `x-kubernetes-patch-merge-key`.
    pub fn merge_key(self) -> Option<&'a str> {
        self.site.merge_key.as_deref()
    }

    /// `x-kubernetes-patch-strategy`, split at commas.
    pub fn patch_strategies(self) -> &'a [String] {
        &self.site.patch_strategies
    }

    /// The default at this place.
    pub fn default_value(self) -> Option<&'a Value> {
        self.site.default.as_ref().or(self.node.default.as_ref())
    }

    /// The definition that the node stands for, e.g. `io.k8s.api.core.v1.PodSpec`.
    pub fn definition(self) -> Option<&'a str> {
        self.node.name.as_deref()
    }

    pub(crate) fn go_facts(self) -> Option<&'a GoFacts> {
        self.node.go.as_deref()
    }

    pub(crate) fn limits(self) -> Option<&'a Limits> {
        self.node.limits.as_deref()
    }

    pub(crate) fn rules(self) -> &'a [Rule] {
        &self.node.rules
    }
}
