//! What the API refuses, and in which words.
//!
//! Schema failures are 422, the webhook's are 403; the market is checked before the reserve, and that before the
//! ladder, as on the real one.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::classes::{Class, six};

/// A refusal as Kubernetes words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) code: u16,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Refused {
    pub(super) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Refused {
            code,
            reason,
            message: message.into(),
        }
    }

    /// Refused by the webhook that looks at pools.
    pub(super) fn webhook(said: impl std::fmt::Display) -> Self {
        let name = "vspotnodepool.ngpc.rxt.io";
        let message = format!("admission webhook \"{name}\" denied the request: {said}");
        Refused::new(403, "Forbidden", message)
    }

    fn schema(name: &str, said: &str) -> Self {
        let message = format!("SpotNodePool.ngpc.rxt.io \"{name}\" is invalid: {said}");
        Refused::new(422, "Invalid", message)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code});
        (code, Json(status)).into_response()
    }
}

/// A bare lower-case UUID.
pub(super) fn is_uuid(name: &str) -> bool {
    let groups: Vec<&str> = name.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && name
            .chars()
            .all(|c| c == '-' || matches!(c, '0'..='9' | 'a'..='f'))
}

/// What every pool must have.
pub(super) fn shape(name: &str, spec: &Value) -> Result<(), Refused> {
    if !is_uuid(name) {
        return Err(Refused::webhook(format!(
            "metadata.name must be a valid UUID, but got {name:?}"
        )));
    }
    for field in ["serverClass", "cloudSpace"] {
        if spec[field].as_str().is_none_or(str::is_empty) {
            return Err(Refused::schema(
                name,
                &format!("spec.{field}: Required value"),
            ));
        }
    }
    match spec["desired"].as_i64() {
        Some(1..) => Ok(()),
        _ => Err(Refused::schema(
            name,
            "spec.desired: Invalid value: \"integer\": spec.desired in body should be greater than or equal to 1",
        )),
    }
}

/// A bid in thousandths, if it has the form of one.
pub(super) fn bid(name: &str, spec: &Value) -> Result<u32, Refused> {
    let wrong = || {
        Refused::schema(
            name,
            "spec.bidPrice: Invalid value: \"string\": bidPrice can only be a positive number up to three decimal places",
        )
    };
    let text = spec["bidPrice"].as_str().ok_or_else(wrong)?;
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 3 {
        return Err(wrong());
    }
    let whole: u32 = whole.parse().map_err(|_| wrong())?;
    let part: u32 = format!("{part:0<3}").parse().map_err(|_| wrong())?;
    whole
        .checked_mul(1000)
        .and_then(|whole| whole.checked_add(part))
        .ok_or_else(wrong)
}

/// Whether the market takes this bid.
pub(super) fn judge(class: &Class, bid: u32, market: u32) -> Result<(), Refused> {
    let Some(reserve) = class.reserve else {
        return Err(Refused::webhook(
            "failed to parse serverclass min bid price while validating bid price: \
             strconv.ParseFloat: parsing \"\": invalid syntax",
        ));
    };
    let below = |what: &str, amount: u32| {
        Err(Refused::webhook(format!(
            "BidPrice validation failed: BidPrice must be greater than or equal to the {what} price of {}, but got {}",
            six(amount),
            six(bid)
        )))
    };
    if bid < market {
        return below("market", market);
    }
    if bid < reserve {
        return below("minimum bid", reserve);
    }
    if !is_rung(bid) {
        return Err(Refused::webhook(format!(
            "bid price {} is not on the bid ladder",
            super::classes::plain(bid)
        )));
    }
    Ok(())
}

/// Walks up the ladder as the rule is worded: steps of 1 cent below 4, of 2 below 10, of 3 below 20, of 5 above.
fn is_rung(bid: u32) -> bool {
    let mut rung = 10;
    while rung < bid {
        rung += match rung {
            ..40 => 10,
            40..100 => 20,
            100..200 => 30,
            _ => 50,
        };
    }
    rung == bid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_is_the_published_one() {
        let rungs: Vec<u32> = (1..=320).filter(|bid| is_rung(*bid)).collect();
        assert_eq!(
            rungs,
            [10, 20, 30, 40, 60, 80, 100, 130, 160, 190, 220, 270, 320]
        );
    }

    #[test]
    fn bids_are_text_with_at_most_three_decimals() {
        for (given, read) in [
            (json!("0.02"), Some(20)),
            (json!("1"), Some(1000)),
            (json!(0.02), None),
            (json!("$0.02"), None),
            (json!("0.0001"), None),
            (json!(".5"), None),
            (json!("1."), None),
        ] {
            assert_eq!(bid("x", &json!({"bidPrice": given})).ok(), read, "{given}");
        }
    }
}
