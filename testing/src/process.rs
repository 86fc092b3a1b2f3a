//! A program that cannot outlive the test that started it.
//!
//! ```text
//! test process ──pipe──► sh ──► program
//! ```
//!
//! The shell starts the program and waits for the end of the pipe. The kernel closes the pipe whenever the test process
//! ends, however it ends: a normal drop, a panic, Ctrl-C, SIGTERM, SIGKILL. There is no signal handler to install and
//! no case to forget. (`PR_SET_PDEATHSIG` would do as much on Linux only, and needs `unsafe`.)

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result};

/// `$1` is the directory to remove after an end of the pipe, the rest is the command.
///
/// Each program of a cluster has its own shell and all of them remove the directory once their own program is dead, so
/// the last one finds nobody writing in it. When the program ends by itself the directory stays: its log is in there.
const WATCH: &str = r#"
directory=$1; shift
exec 3<&0
"$@" 3<&- </dev/null &
program=$!
( while read -r line; do :; done
  trap '' TERM          # from here on it must finish, also when the program is dead already
  kill -KILL "$program" 2>/dev/null
  exit 0 ) <&3 3<&- >/dev/null 2>&1 &
watcher=$!
exec 3<&- </dev/null
wait "$program"; code=$?
kill -TERM "$watcher" 2>/dev/null
if wait "$watcher" 2>/dev/null; then rm -rf "$directory"; fi
exit "$code"
"#;

/// A running program; stopped (and waited for) when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    shell: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`, which writes its output to `<directory>/<name>.log`.
    pub(crate) fn start(
        name: &'static str,
        directory: &Path,
        program: &Path,
        arguments: &[String],
    ) -> Result<Self> {
        let log = directory.join(format!("{name}.log"));
        let output = File::create(&log)?;
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(WATCH)
            .arg(name)
            .arg(directory)
            .arg(program)
            .args(arguments);
        command.current_dir(directory);
        command
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output);
        // Out of the terminal's foreground group: Ctrl-C ends the test process, and the pipe tells the shell.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let shell = command
            .spawn()
            .with_context(|| format!("starting {name} through sh"))?;
        Ok(Self { name, shell, log })
    }

    /// What the program ended with, if it ended by itself.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.shell.try_wait()?)
    }

    /// The program's name and the last lines of its log, for an error message.
    pub(crate) fn last_words(&self) -> String {
        const LINES: usize = 25;
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(LINES)..].join("\n  ");
        format!("the last lines of {}:\n  {tail}", self.name)
    }

    /// Asks the program to end without waiting for it, so that several can end at the same time.
    pub(crate) fn stop(&mut self) {
        drop(self.shell.stdin.take());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
        // The shell kills the program first thing; this waits milliseconds.
        let _ = self.shell.wait();
    }
}
