//! Every way in which BMCs are documented to misbehave, beside what their models always do: what is answered to which
//! call, and what happens to a BMC or its host.

use joiner_sim::clouds::redfish::{CallFault, RedfishFleet};

/// What happens to a BMC or its host, beside calls that go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    BmcRestarts,
    SessionsAreExhausted,
    BootIsForgotten,
    PowerOnIsForgotten,
    SystemIsChanged,
    PasswordChanges,
    PlugIsPulled,
}

#[derive(Clone, Debug)]
pub(crate) enum How {
    /// The next call of this method and path goes wrong.
    Call(&'static str, &'static str, CallFault),
    State(State),
}

/// A documented failure.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) how: How,
}

const LOGIN: (&str, &str) = ("POST", "/redfish/v1/SessionService");
const READ: (&str, &str) = ("GET", "/redfish/v1/Systems");
const CHANGE: (&str, &str) = ("PATCH", "/redfish/v1/Systems");
const RESET: (&str, &str) = ("POST", "/redfish/v1/Systems");

/// What is answered: the call, the status, the message id in a body as BMCs send it.
const REFUSED: [((&str, &str), u16, &str); 19] = [
    (READ, 500, "Base.1.8.InternalError"),
    (READ, 502, "Base.1.8.GeneralError"),
    (READ, 503, "Base.1.8.ServiceTemporarilyUnavailable"),
    (READ, 401, "Base.1.8.NoValidSession"),
    (READ, 404, "Base.1.8.ResourceMissingAtURI"),
    (READ, 406, "Base.1.8.HeaderInvalid"),
    (CHANGE, 400, "iLO.2.14.UnableToModifyDuringSystemPOST"),
    (CHANGE, 400, "Base.1.8.PropertyMissing"),
    (CHANGE, 401, "Base.1.8.NoValidSession"),
    (CHANGE, 412, "Base.1.8.PreconditionFailed"),
    (CHANGE, 428, "Base.1.8.PreconditionRequired"),
    (CHANGE, 503, "IDRAC.2.8.SYS518"),
    (RESET, 400, "iLO.2.14.InvalidOperationForSystemState"),
    (RESET, 409, "IDRAC.2.8.ActionParameterValueConflict"),
    (RESET, 409, "IDRAC.2.1.PSU501"),
    (RESET, 500, "Base.1.8.InternalError"),
    (RESET, 503, "IDRAC.2.8.SYS518"),
    (LOGIN, 503, "IDRAC.2.1.RAC0218"),
    (LOGIN, 503, "Base.1.8.ServiceTemporarilyUnavailable"),
];

impl Failure {
    fn call((method, path): (&'static str, &'static str), fault: CallFault) -> Self {
        Failure {
            how: How::Call(method, path, fault),
        }
    }

    /// What it is called by simulated BMCs that have not met it.
    pub(crate) fn name(&self) -> String {
        match &self.how {
            How::Call(method, path, fault) => format!("{method} {path}: {fault:?}"),
            How::State(state) => format!("{state:?}"),
        }
    }

    pub(crate) fn bring_about(&self, fleet: &RedfishFleet, bmc: &str) {
        if let How::Call(method, path, fault) = &self.how {
            fleet.fail(&format!("{method} {bmc}{path}"), fault.clone(), 1);
            if (*method, *path) == LOGIN {
                // There is no login where a session is open.
                fleet.end_sessions(bmc);
            }
        }
    }
}

/// The table.
pub(crate) fn documented() -> Vec<Failure> {
    let mut table: Vec<Failure> = REFUSED
        .iter()
        .map(|(call, status, id)| {
            let body = format!(
                r#"{{"error":{{"code":"Base.1.8.GeneralError","message":"see ExtendedInfo","@Message.ExtendedInfo":[{{"MessageId":"{id}"}}]}}}}"#
            );
            Failure::call(*call, CallFault::Says(*status, body))
        })
        .collect();
    // Bodies that are none, or something else's.
    for body in ["", "<html>please wait</html>", "{\"PowerState\":"] {
        table.push(Failure::call(READ, CallFault::Says(200, body.to_owned())));
    }
    for call in [LOGIN, READ, CHANGE, RESET] {
        table.push(Failure::call(call, CallFault::Lost));
        table.push(Failure::call(call, CallFault::Hangs));
    }
    let states = [
        State::BmcRestarts,
        State::SessionsAreExhausted,
        State::BootIsForgotten,
        State::PowerOnIsForgotten,
        State::SystemIsChanged,
        State::PasswordChanges,
        State::PlugIsPulled,
    ];
    table.extend(states.map(|state| Failure {
        how: How::State(state),
    }));
    table
}
