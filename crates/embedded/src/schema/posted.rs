//! Schemas of custom resources, compiled once for all servers of a process: a simulation makes hundreds of worlds, and
//! each of them posts the same definitions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::cel::Rules;
use super::error::FieldError;
use super::node::Schema;

/// More schemas than this at a time are forgotten together.
const MOST: usize = 256;

/// Schemas that were found sound, by what was posted.
static KNOWN: Mutex<BTreeMap<String, Arc<Posted>>> = Mutex::new(BTreeMap::new());

/// A schema with its rules.
#[derive(Debug)]
pub struct Posted {
    /// What objects look like.
    pub schema: Schema,
    /// What must hold between their fields.
    pub rules: Rules,
}

impl Posted {
    /// Reads and judges a schema; what is wrong with it is told as of `path`.
    pub fn judge(schema: &Value, path: &str) -> Result<Arc<Self>, Vec<FieldError>> {
        let text = schema.to_string();
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(posted) = known().get(&text) {
            return Ok(Arc::clone(posted));
        }
        let posted = Arc::new(Self::compile(Schema::structural(schema, path)?));
        let mut known = known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(text, Arc::clone(&posted));
        Ok(posted)
    }

    /// Reads a schema without judging it.
    pub fn read(schema: &Value) -> Arc<Self> {
        // Whoever was let in was judged before; what was not is compiled for itself.
        Self::judge(schema, "").unwrap_or_else(|_| Arc::new(Self::compile(Schema::read(schema))))
    }

    fn compile(schema: Schema) -> Self {
        Self {
            rules: Rules::compile(&schema),
            schema,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_compiled_once_and_a_wrong_one_is_refused_every_time() {
        let schema = json!({"type": "object", "properties": {"posted": {"type": "string"}}});
        let first = Posted::judge(&schema, "a").unwrap();
        assert!(Arc::ptr_eq(&first, &Posted::judge(&schema, "b").unwrap()));
        assert!(Arc::ptr_eq(&first, &Posted::read(&schema)));
        let wrong = json!({"type": "object", "properties": {"posted": {}}});
        for path in ["a", "b"] {
            let refused = Posted::judge(&wrong, path).unwrap_err();
            assert!(refused[0].field.starts_with(path), "{refused:?}");
        }
    }
}
