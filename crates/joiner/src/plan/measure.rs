//! What the process took.

use std::fs;

/// The most memory that the process ever held, in MiB; zero where the kernel does not say.
pub(crate) fn peak_rss_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next());
    kib.and_then(|kib| kib.parse::<f64>().ok())
        .unwrap_or_default()
        / 1024.0
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_running_process_holds_some_memory() {
        if cfg!(target_os = "linux") {
            assert!(super::peak_rss_mib() > 0.5);
        }
    }
}
