//! Every failure of Proxmox VE that is documented and that a client of these calls can meet: where it shows, what is said,
//! and how the simulated cluster is brought to say it.
//!
//! Left out is what no call of ours can meet: refusals of `shutdown` (machines are stopped, their nodes were drained), of
//! snippets that are uploaded (the API takes none), of `purge` that is missing (it is always sent), of bodies that are too
//! large or chunked, and of a start of a template.

use std::time::Duration;

use joiner_sim::clouds::proxmox::{CallFault, ProxmoxCloud};

/// What happens to the cluster or to a machine, beside refused calls and failed tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    TokenExpires,
    QuorumIsLost,
    HostGoesOffline,
    HighAvailabilityMoves,
    BackupLocks,
    Protected,
    DiskIsFull,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The next call of this form goes wrong.
    Call(&'static str, CallFault),
    /// The next task of this kind ends so.
    Task(&'static str, &'static str),
    /// Something happens, and the cluster says this because of it, if anything.
    State(State),
}

/// A documented failure.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) how: How,
    says: Vec<String>,
}

const CREATE: &str = "POST /nodes/*/qemu";
const CLONE: &str = "POST /nodes/*/clone";
const START: &str = "POST /nodes/*/status/start";
const STOP: &str = "POST /nodes/*/status/stop";
const CONFIGURE: &str = "PUT /nodes/*/config";
const RESIZE: &str = "PUT /nodes/*/resize";
const DESTROY: &str = "DELETE /nodes/*";
const CONFIG: &str = "GET /nodes/*/config";
const CURRENT: &str = "GET /nodes/*/status/current";
const TASK: &str = "GET /nodes/*/tasks/*";
const GUESTS: &str = "GET /cluster/resources?type=vm";
const MEMBERS: &str = "GET /cluster/status";

const VM_LOCK: &str = "can't lock file '/var/lock/qemu-server/lock-1250.conf' - got timeout";
const LOCAL_LOCK: &str =
    "can't lock file '/var/lock/pve-manager/pve-storage-local-zfs' - got timeout";
const SHARED_LOCK: &str = "cfs-lock 'storage-ceph' error: got lock request timeout";
const NO_QUORUM: &str = "cluster not ready - no quorum?";
const CFS_NO_QUORUM: &str = "cfs-lock 'storage-ceph' error: no quorum!";
const NO_WORKER: &str = "got no worker upid - start worker failed";
const GONE: &str = "Configuration file 'nodes/pve1/qemu-server/1250.conf' does not exist";
const ZFS_FULL: &str = "zfs error: cannot create 'rpool/data/vm-1250-disk-0': out of space";
const LVM_FULL: &str = "lvcreate 'pve/vm-1250-disk-0' error: insufficient free space";

/// Refusals by status: the call, the status, what is said.
const REFUSED: [(&str, u16, &str); 49] = [
    // The number is taken.
    (
        CREATE,
        500,
        "unable to create VM 1250 - VM 1250 already exists on node 'pve2'",
    ),
    (
        CLONE,
        500,
        "unable to create VM 1250: config file already exists",
    ),
    // Locks.
    (CREATE, 500, VM_LOCK),
    (CLONE, 500, VM_LOCK),
    (CONFIGURE, 500, VM_LOCK),
    (DESTROY, 500, VM_LOCK),
    (CONFIGURE, 500, "VM is locked (snapshot)"),
    // No quorum.
    (CREATE, 500, NO_QUORUM),
    (CLONE, 500, NO_QUORUM),
    (START, 500, NO_QUORUM),
    (STOP, 500, NO_QUORUM),
    (DESTROY, 500, NO_QUORUM),
    (CONFIGURE, 500, CFS_NO_QUORUM),
    // Storages.
    (CREATE, 500, "storage 'local-zfs' does not exist"),
    (
        CREATE,
        500,
        "storage 'local-zfs' is not available on node 'pve1'",
    ),
    (CREATE, 500, "storage 'local-zfs' is disabled"),
    (CLONE, 500, "storage 'ceph' does not exist"),
    (RESIZE, 500, ZFS_FULL),
    // Templates.
    (
        CLONE,
        500,
        "can't clone VM to node 'pve3' (VM uses local storage)",
    ),
    (CLONE, 500, "can't clone to non-shared storage 'local-zfs'"),
    // Privileges: of machines, tags, bridges, templates.
    (
        CREATE,
        403,
        "Permission check failed (/vms/1250, VM.Allocate)",
    ),
    (
        CREATE,
        403,
        "Permission check failed (/sdn/zones/localnetwork/vmbr0/20, SDN.Use)",
    ),
    (
        CONFIGURE,
        403,
        "Permission check failed (/, Sys.Modify for modifying tag 'joiner')",
    ),
    (CLONE, 403, "Permission check failed (/vms/9000, VM.Clone)"),
    (CLONE, 403, "Permission check failed"),
    (
        START,
        403,
        "URI '/nodes/pve1/qemu/1250/status/start' not available with API token, need proper ticket.",
    ),
    // Options.
    (CREATE, 500, "only root can set 'args' config"),
    // Too much at once.
    (CREATE, 500, NO_WORKER),
    (CLONE, 500, NO_WORKER),
    (START, 500, NO_WORKER),
    (STOP, 500, NO_WORKER),
    (DESTROY, 500, NO_WORKER),
    // Hosts that do not answer, or answer no more.
    (CREATE, 595, "No route to host"),
    (CLONE, 595, "Network is unreachable"),
    (START, 595, "No route to host"),
    (CONFIG, 595, "No route to host"),
    (DESTROY, 595, "No route to host"),
    (
        CREATE,
        500,
        "hostname lookup 'pve1' failed - failed to get address info for: pve1: Name or service not known",
    ),
    (GUESTS, 596, "Broken pipe"),
    (TASK, 599, "Connection timed out"),
    (CURRENT, 597, "Connection reset by peer"),
    // Machines that were moved or removed, or are not off.
    (CONFIG, 500, GONE),
    (CONFIGURE, 500, GONE),
    (CURRENT, 500, GONE),
    (DESTROY, 500, "VM 1250 is running - destroy failed"),
    // Tasks that are not known yet, old versions, tokens that are refused once.
    (TASK, 400, "no such task"),
    (
        RESIZE,
        501,
        "Method 'PUT /nodes/pve1/qemu/1250/resize' not implemented",
    ),
    (CREATE, 401, "invalid token value!"),
    (MEMBERS, 401, "No ticket"),
];

/// Ends of tasks: the kind, what is said.
const FAILED: [(&str, &str); 24] = [
    ("qmcreate", LOCAL_LOCK),
    ("qmcreate", SHARED_LOCK),
    ("qmcreate", CFS_NO_QUORUM),
    ("qmcreate", ZFS_FULL),
    ("qmcreate", LVM_FULL),
    (
        "qmcreate",
        "Permission check failed (/, Sys.Modify for modifying tag 'joiner')",
    ),
    ("qmcreate", "unexpected status"),
    ("qmclone", LOCAL_LOCK),
    ("qmclone", SHARED_LOCK),
    ("qmclone", CFS_NO_QUORUM),
    ("qmclone", "VM is locked (backup)"),
    ("qmclone", ZFS_FULL),
    ("qmclone", LVM_FULL),
    ("qmclone", "unexpected status"),
    ("resize", LVM_FULL),
    ("qmstart", "start failed: QEMU exited with code 1"),
    ("qmstart", "bridge 'vmbr0' does not exist"),
    (
        "qmstart",
        "volume 'local:snippets/join.yaml' does not exist",
    ),
    ("qmstart", VM_LOCK),
    ("qmstart", "VM 1250 already running"),
    ("qmstop", "VM is locked (backup)"),
    ("qmstop", VM_LOCK),
    ("qmdestroy", VM_LOCK),
    ("qmdestroy", CFS_NO_QUORUM),
];

/// Calls whose answer never comes, although they are done: at once, or only after a while.
const LOST: [&str; 6] = [CREATE, CLONE, START, STOP, CONFIGURE, DESTROY];
const LATE: [(&str, u16, u64); 5] = [
    (CREATE, 596, 2),
    (CREATE, 597, 20),
    (CREATE, 599, 60),
    (CLONE, 596, 20),
    (CLONE, 599, 60),
];

impl Failure {
    fn call(call: &'static str, fault: CallFault, says: &str) -> Self {
        Failure {
            how: How::Call(call, fault),
            says: vec![pattern(says)],
        }
    }

    fn state(state: State, says: &[&str]) -> Self {
        Failure {
            how: How::State(state),
            says: says.iter().map(|text| pattern(text)).collect(),
        }
    }

    /// What it is called by a simulated cluster that has not met it.
    pub(crate) fn name(&self) -> String {
        match &self.how {
            How::Call(call, fault) => format!("{call}: {fault:?}"),
            How::Task(kind, error) => format!("{kind}: {error}"),
            How::State(state) => format!("{state:?}"),
        }
    }

    /// What the cluster says because of it.
    pub(crate) fn says(&self) -> Vec<String> {
        self.says.clone()
    }

    /// Whether a call may be done after all when it is not waited for any more.
    pub(crate) fn takes_effect_late(&self) -> bool {
        matches!(self.how, How::Call(_, CallFault::Late(..)))
    }

    pub(crate) fn bring_about(&self, cloud: &ProxmoxCloud) {
        match &self.how {
            How::Call(call, fault) => cloud.fail(call, fault.clone(), 1),
            How::Task(kind, error) => cloud.fail_task(kind, error, 1),
            How::State(_) => {}
        }
    }
}

/// What is said, with `N` in place of numbers beyond the status.
pub(crate) fn pattern(text: &str) -> String {
    let (status, rest) = match text.split_once(": ") {
        Some((status, rest)) if status.bytes().all(|byte| byte.is_ascii_digit()) => {
            (format!("{status}: "), rest)
        }
        _ => (String::new(), text),
    };
    let mut said = status;
    let begin = said.len();
    for part in rest.chars() {
        match part {
            '0'..='9' if said.len() > begin && said.ends_with('N') => {}
            '0'..='9' => said.push('N'),
            other => said.push(other),
        }
    }
    said
}

/// The table.
pub(crate) fn documented() -> Vec<Failure> {
    let mut table: Vec<Failure> = REFUSED
        .iter()
        .map(|(call, status, text)| {
            let fault = CallFault::Refused(*status, (*text).to_owned());
            Failure::call(call, fault, &format!("{status}: {text}"))
        })
        .collect();
    for (field, text) in [
        ("vmid", "VM 1250 already exists"),
        ("scsi0", "invalid format - format error"),
        ("storage", "storage 'local-zfs' does not support vm images"),
    ] {
        let fault = CallFault::Field(field.to_owned(), text.to_owned());
        let says = format!("400: Parameter verification failed. {field}: {text}");
        table.push(Failure::call(CREATE, fault, &says));
    }
    table.extend(FAILED.iter().map(|(kind, error)| Failure {
        how: How::Task(kind, error),
        says: vec![pattern(&format!("{kind}: {error}"))],
    }));
    for call in LOST {
        let method = call.split(' ').next().unwrap_or_default();
        table.push(Failure::call(
            call,
            CallFault::Lost,
            &format!("lost: {method}"),
        ));
    }
    for (call, status, takes) in LATE {
        let fault = CallFault::Late(status, Duration::from_secs(takes));
        let says = format!("{status}: Connection timed out");
        table.push(Failure::call(call, fault, &says));
    }
    let page = CallFault::Says(200, "<html>router login</html>".to_owned());
    table.push(Failure::call(
        MEMBERS,
        page,
        "says: <html>router login</html>",
    ));
    for call in [CREATE, GUESTS] {
        let fault = CallFault::Hangs;
        table.push(Failure::call(call, fault, "hangs: no answer"));
    }
    table.extend([
        Failure::state(State::TokenExpires, &["401: Authentication failed!"]),
        Failure::state(State::QuorumIsLost, &["status: not quorate"]),
        Failure::state(State::HostGoesOffline, &["595: No route to host"]),
        Failure::state(State::HighAvailabilityMoves, &[]),
        // Found by reading the machine first: nothing has to be refused.
        Failure::state(State::BackupLocks, &[]),
        Failure::state(
            State::Protected,
            &["500: can't remove VM 1250 - protection mode enabled"],
        ),
        Failure::state(State::DiskIsFull, &[]),
    ]);
    table
}
