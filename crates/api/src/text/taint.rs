//! Taints on one line: `key=value:Effect` or `key:Effect`.

use joiner_core::taints::{Effect, Taint};
use thiserror::Error;

use super::written;

/// Why a text is not a taint.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "{0:?} is not a taint: write key=value:Effect or key:Effect, where Effect is NoSchedule, PreferNoSchedule or NoExecute"
)]
pub struct TaintTextError(String);

written! {
    /// A taint as kubectl writes it: `key=value:Effect` or `key:Effect`.
    TaintText
}

impl TaintText {
    /// What it means.
    pub fn get(&self) -> Result<Taint, TaintTextError> {
        self.read().ok_or_else(|| TaintTextError(self.0.clone()))
    }

    fn read(&self) -> Option<Taint> {
        let (what, effect) = self.0.rsplit_once(':')?;
        let effect: Effect = effect.parse().ok()?;
        let (key, value) = what.split_once('=').unwrap_or((what, ""));
        let well_formed = |text: &str| !text.contains([' ', ':', '=', ',']);
        (!key.is_empty() && well_formed(key) && well_formed(value)).then(|| Taint {
            key: key.into(),
            value: value.into(),
            effect,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_value_and_effect_are_taken_apart() {
        let taint = TaintText::from("nvidia.com/gpu=true:NoSchedule")
            .get()
            .unwrap();
        assert_eq!(&*taint.key, "nvidia.com/gpu");
        assert_eq!(&*taint.value, "true");
        assert_eq!(taint.effect, Effect::NoSchedule);
        let taint = TaintText::from("dedicated:NoExecute").get().unwrap();
        assert_eq!((&*taint.key, &*taint.value), ("dedicated", ""));
    }

    #[test]
    fn nonsense_is_refused_with_the_text_in_the_message() {
        for text in [
            "",
            "gpu",
            "gpu=true",
            "gpu:Nope",
            ":NoSchedule",
            "=x:NoSchedule",
            "a=b=c:NoSchedule",
            "a b:NoExecute",
        ] {
            let error = TaintText::from(text).get().unwrap_err();
            assert!(error.to_string().contains(text), "{text}");
        }
    }
}
