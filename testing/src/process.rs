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
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

/// `$0` is the program's name, `$1` the directory to remove after an end of the pipe, the rest is the command.
///
/// Each program of a cluster has its own shell and all of them remove the directory once their own program is dead, so
/// the last one finds nobody writing in it. When the program ends by itself the directory stays: its log is in there.
const WATCH: &str = r#"
directory=$1; shift
exec 3<&0
"$@" 3<&- </dev/null &
program=$!
echo "$program" > "$directory/$0.pid"
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

/// What can be done to a running program from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It stands still, with all its connections open.
    Stop,
    /// It goes on.
    Continue,
    /// It is asked to end.
    Terminate,
    /// It dies at once.
    Kill,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Signal::Stop => "STOP",
            Signal::Continue => "CONT",
            Signal::Terminate => "TERM",
            Signal::Kill => "KILL",
        }
    }
}

/// A running program; stopped (and waited for) when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    shell: Child,
    log: PathBuf,
    pid: PathBuf,
}

impl Process {
    /// Starts `program`, which writes its output to `<directory>/<name>.log`. The directory is removed when the process
    /// is stopped or this process ends.
    pub fn start(
        name: &str,
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
        Ok(Self {
            name: name.to_owned(),
            shell,
            log,
            pid: directory.join(format!("{name}.pid")),
        })
    }

    /// What the program ended with, if it ended by itself.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.shell.try_wait()?)
    }

    /// The program's name, as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program's process id.
    pub fn pid(&self) -> Result<u32> {
        // The shell writes the file first thing, but it need not have done so yet.
        for _ in 0..100 {
            let pid = std::fs::read_to_string(&self.pid).unwrap_or_default();
            if let Some(pid) = pid.strip_suffix('\n') {
                return Ok(pid.parse()?);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("{} has not started", self.name);
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.pid()?.to_string();
        let status = Command::new("kill")
            .args(["-s", signal.name(), &pid])
            .stderr(Stdio::null())
            .status()
            .context("running kill")?;
        ensure!(status.success(), "{} ({pid}) has ended already", self.name);
        Ok(())
    }

    /// Everything that the program has written.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The program's name and the last lines of its log, for an error message.
    pub fn last_words(&self) -> String {
        const LINES: usize = 25;
        let text = self.output();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(LINES)..].join("\n  ");
        format!("the last lines of {}:\n  {tail}", self.name)
    }

    /// Asks the program to end without waiting for it, so that several can end at the same time.
    pub fn stop(&mut self) {
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
