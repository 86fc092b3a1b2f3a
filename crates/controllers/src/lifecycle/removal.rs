//! Why a machine object is deleted although its machine works: one word for metrics and logs, one sentence for events.

use joiner_core::problem::DisruptionReason;

/// Why a machine object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumIter, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum RemovalReason {
    /// Nothing runs on it.
    Empty,
    /// It is not what its pool asks for any more.
    Drifted,
    /// Its pods run cheaper elsewhere.
    Underutilized,
    /// It is older than its pool allows.
    Expired,
    /// It was bought to replace a node that stays.
    Unneeded,
    /// Its node has been unhealthy for too long.
    Unhealthy,
    /// Its cloud takes it away.
    Interrupted,
    /// The machine or its node is gone.
    GarbageCollected,
    /// Its pool is being deleted.
    PoolDeleted,
    /// Its pool has more nodes than it is to have.
    Static,
}

impl RemovalReason {
    /// The word for it in metrics and logs, as Karpenter has it.
    pub(crate) fn word(self) -> &'static str {
        self.into()
    }

    /// The sentence for it, without its subject.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            RemovalReason::Empty => "it is empty",
            RemovalReason::Drifted => "it is not what its pool asks for any more",
            RemovalReason::Underutilized => "its pods cost less elsewhere",
            RemovalReason::Expired => "it is older than expireAfter",
            RemovalReason::Unneeded => "what it was launched to replace stays",
            RemovalReason::Unhealthy => "it has been unhealthy for too long",
            RemovalReason::Interrupted => "its cloud takes the machine away",
            RemovalReason::GarbageCollected => "its machine or its Node no longer exists",
            RemovalReason::PoolDeleted => "its pool is being deleted",
            RemovalReason::Static => "its pool has more nodes than spec.replicas",
        }
    }
}

impl From<DisruptionReason> for RemovalReason {
    fn from(cause: DisruptionReason) -> Self {
        match cause {
            DisruptionReason::Empty => RemovalReason::Empty,
            DisruptionReason::Drifted => RemovalReason::Drifted,
            DisruptionReason::Underutilized => RemovalReason::Underutilized,
            DisruptionReason::Expired => RemovalReason::Expired,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use strum::IntoEnumIterator as _;

    use super::*;

    #[test]
    fn every_reason_to_remove_a_machine_has_a_word_and_a_sentence() {
        let mut told = String::new();
        for reason in RemovalReason::iter() {
            writeln!(told, "{:<17} {}", reason.word(), reason.sentence()).unwrap();
        }
        assert_eq!(
            told,
            "\
empty             it is empty
drifted           it is not what its pool asks for any more
underutilized     its pods cost less elsewhere
expired           it is older than expireAfter
unneeded          what it was launched to replace stays
unhealthy         it has been unhealthy for too long
interrupted       its cloud takes the machine away
garbage_collected its machine or its Node no longer exists
pool_deleted      its pool is being deleted
static            its pool has more nodes than spec.replicas
"
        );
    }
}
