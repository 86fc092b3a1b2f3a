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

/// Processor time of all threads so far, in milliseconds; zero where the kernel does not say.
pub(crate) fn cpu_ms() -> f64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    let nanos = tasks.flatten().filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1e6
}

#[cfg(test)]
mod tests {
    #[test]
    fn work_takes_processor_time() {
        let before = super::cpu_ms();
        if before > 0.0 {
            let start = std::time::Instant::now();
            while start.elapsed().as_millis() < 20 {
                std::hint::black_box(start.elapsed());
            }
            assert!(super::cpu_ms() > before);
        }
    }

    #[test]
    fn a_running_process_holds_some_memory() {
        if cfg!(target_os = "linux") {
            assert!(super::peak_rss_mib() > 0.5);
        }
    }
}
