//! Conditions in the status of every kind.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, description = "")]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Not known yet.
    #[default]
    Unknown,
}

/// One aspect of an object's state, and since when it is so.
///
/// Reads conditions that lack all but type and status, as the documents show them; writes all fields that Kubernetes
/// asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("required" = ["lastTransitionTime", "message", "reason", "status", "type"]))]
pub struct Condition {
    /// Name of the aspect, in CamelCase.
    #[serde(rename = "type")]
    #[schemars(extend(
        "maxLength" = 316,
        "pattern" = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    ))]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in one CamelCase word for programs.
    #[serde(default)]
    #[schemars(extend(
        "minLength" = 1,
        "maxLength" = 1024,
        "pattern" = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
    ))]
    pub reason: String,
    /// Why, in a sentence for people; may be empty.
    #[serde(default)]
    #[schemars(extend("maxLength" = 32768))]
    pub message: String,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Generation of the object that this was found out about; older than `metadata.generation` means out of date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub observed_generation: Option<i64>,
}

/// Sets a condition in a list and says whether anything changed.
///
/// The time moves only when the status does, so that "since when" stays true and a reconcile that finds nothing new
/// writes nothing.
pub fn set(conditions: &mut Vec<Condition>, mut new: Condition, now: Timestamp) -> bool {
    new.last_transition_time = Some(Time(now));
    let Some(old) = conditions.iter_mut().find(|old| old.type_ == new.type_) else {
        conditions.push(new);
        return true;
    };
    if old.status == new.status && old.last_transition_time.is_some() {
        new.last_transition_time
            .clone_from(&old.last_transition_time);
    }
    if *old == new {
        return false;
    }
    *old = new;
    true
}

/// The condition of a type, if it is there.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(status: ConditionStatus, message: &str) -> Condition {
        Condition {
            type_: "Ready".into(),
            status,
            reason: "Because".into(),
            message: message.into(),
            ..Condition::default()
        }
    }

    #[test]
    fn time_moves_only_with_the_status() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut list = Vec::new();
        assert!(set(&mut list, ready(ConditionStatus::False, "a"), at(1)));
        assert!(!set(&mut list, ready(ConditionStatus::False, "a"), at(2)));
        assert!(set(&mut list, ready(ConditionStatus::False, "b"), at(3)));
        assert_eq!(list[0].last_transition_time, Some(Time(at(1))));
        assert!(set(&mut list, ready(ConditionStatus::True, "b"), at(4)));
        assert_eq!(list[0].last_transition_time, Some(Time(at(4))));
        assert_eq!(list.len(), 1);
        assert_eq!(
            find(&list, "Ready").map(|c| c.status),
            Some(ConditionStatus::True)
        );
        assert_eq!(find(&list, "Drifted"), None);
    }

    #[test]
    fn conditions_as_the_documents_show_them_can_be_read() {
        let condition: Condition =
            serde_json::from_value(serde_json::json!({"type": "Launched", "status": "True"}))
                .unwrap();
        assert_eq!(condition.status, ConditionStatus::True);
        assert_eq!(condition.last_transition_time, None);
    }
}
