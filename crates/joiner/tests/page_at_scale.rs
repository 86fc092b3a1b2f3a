//! The page of a large cluster: the real binary on 5,000 nodes and 50,000 pods behind a real socket. How soon each panel
//! is there and is painted by a browser, and what the page costs the process that serves it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "only tests use this"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use joiner_embedded::api::{ApiServer, Local, Options};
use joiner_embedded::clock::Clock;
use joiner_testing::{Browser, Large};
use serde_json::{Value, json};

/// No machine is as large as the pods that wait.
const LARGE: Large = Large {
    nodes: 5_000,
    pods: 50_000,
    waiting: 500,
    cores: 500,
    settles: "5s",
};

const HANGS: Duration = Duration::from_mins(5);
/// What a person waits for, and what is asked for again at every change.
const FIRST: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(100);
/// How often a viewer asks again, which is as often as the page is told of changes.
const LOOKS: Duration = Duration::from_millis(500);
/// How long the process is watched at rest.
const REST: Duration = Duration::from_mins(1);

const PANELS: [&str; 8] = [
    "/",
    "/demand",
    "/nodes",
    "/nodes?q=node-4999&sort=waste",
    "/activity",
    "/market",
    "/why/node/node-17",
    "/api/v1/overview",
];

/// How much slower planning may be while a viewer looks on.
const SLOWER: f64 = 1.05;
/// How many pods come, one after the other, to be planned for.
const PROBES: usize = 6;
/// The histogram of how long plans take.
const PLANNING: &str = "karpenter_scheduler_scheduling_duration_seconds";

/// Ends the process, however the test ends.
struct Joiner {
    child: Child,
    metrics: String,
}

impl Drop for Joiner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody has at this moment.
fn free_port() -> u16 {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

impl Joiner {
    /// Watches a cluster and writes nothing; with a page, if it has a port.
    fn observe(kubeconfig: &Path, page: u16) -> Self {
        let page = if page == 0 {
            "0".to_owned()
        } else {
            format!("127.0.0.1:{page}")
        };
        let metrics = format!("127.0.0.1:{}", free_port());
        let child = Command::new(env!("CARGO_BIN_EXE_joiner"))
            .args(["run", "--observe-only", "--leader-elect=false"])
            .arg("--health-probe-bind-address=0")
            .arg(format!("--metrics-bind-address={metrics}"))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--page-bind-address={page}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Joiner {
            child: child.unwrap(),
            metrics: format!("http://{metrics}/metrics"),
        }
    }

    /// Processor time that it has used, in all its threads.
    fn cpu(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = text.rsplit(") ").next().unwrap().split(' ').collect();
        // utime and stime, in hundredths of a second: fields 14 and 15, the first two having been cut off.
        let ticks = fields[11..13].iter().map(|one| one.parse::<u64>().unwrap());
        Duration::from_millis(ticks.sum::<u64>() * 10)
    }

    /// The memory that it has.
    fn memory_mib(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib / 1024
    }

    /// How many plans it has made, and how many seconds all of them took.
    async fn planned(&self) -> Option<(f64, f64)> {
        let text = reqwest::get(&self.metrics).await.ok()?.text().await.ok()?;
        let figure = |end: &str| {
            let name = format!("{PLANNING}_{end}{{");
            let line = text.lines().find(|line| line.starts_with(&name))?;
            line.rsplit(' ').next()?.parse::<f64>().ok()
        };
        Some((figure("count")?, figure("sum")?))
    }

    /// Lets one more pod wait, and says how many seconds the plan took that was made for it.
    async fn plan_again(&self, api: &Local, name: &str) -> f64 {
        let (count, sum) = self.planned().await.unwrap();
        LARGE.wait_too(api, name).unwrap();
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < HANGS, "no plan is made for {name}");
            tokio::time::sleep(Duration::from_millis(100)).await;
            let (now, total) = self.planned().await.unwrap();
            if now > count {
                return (total - sum) / (now - count);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes and wants a machine that does nothing else: cargo test -p joiner --test page_at_scale -- --ignored"]
async fn the_page_of_five_thousand_nodes_is_there_at_once_and_costs_little() {
    let server = ApiServer::new(Clock::wall(), &Options::default());
    LARGE.fill(&server.local()).unwrap();
    let port = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", port.address())}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}]});
    std::fs::write(&kubeconfig, config.to_string()).unwrap();

    let page_port = free_port();
    let base = format!("http://127.0.0.1:{page_port}");
    let joiner = Joiner::observe(&kubeconfig, page_port);
    let begun = Instant::now();
    let judged = async || -> Option<()> {
        let nodes = reqwest::get(format!("{base}/api/v1/nodes?limit=5000"))
            .await
            .ok()?;
        let nodes: Value = nodes.json().await.ok()?;
        let all = nodes["nodes"].as_array()?;
        (all.len() == LARGE.nodes && all.iter().all(|one| !one["stays"].is_null())).then_some(())
    };
    while judged().await.is_none() {
        assert!(begun.elapsed() < HANGS, "it does not look at its nodes");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    println!("every node was judged within {:.1?}", begun.elapsed());

    let slow = serve(&base).await;
    let memory = joiner.memory_mib();

    let painted = paint(&base).await;

    let api = server.local();
    let look = || {
        let base = base.clone();
        tokio::spawn(async move {
            loop {
                let answer = reqwest::get(format!("{base}/")).await.unwrap();
                answer.bytes().await.unwrap();
                tokio::time::sleep(LOOKS).await;
            }
        })
    };
    // In turn, so that whatever else the machine does slows both alike.
    let (mut unseen, mut seen) = (Vec::new(), Vec::new());
    for probe in 0..PROBES {
        unseen.push(joiner.plan_again(&api, &format!("unseen-{probe}")).await);
        let viewer = look();
        seen.push(joiner.plan_again(&api, &format!("seen-{probe}")).await);
        viewer.abort();
    }
    let (unseen, seen) = (median(unseen), median(seen));
    println!(
        "planning for {} pods that wait: {:.0} ms, {:.0} ms with a viewer",
        LARGE.waiting,
        unseen * 1e3,
        seen * 1e3
    );

    let viewer = look();
    let watched = at_rest(&joiner).await;
    viewer.abort();
    let served = at_rest(&joiner).await;
    drop(joiner);
    let bare = Joiner::observe(&kubeconfig, 0);
    while bare.planned().await.is_none_or(|(count, _)| count < 1.0) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let mut without = Vec::new();
    for probe in 0..PROBES {
        without.push(bare.plan_again(&api, &format!("bare-{probe}")).await);
    }
    let without = median(without) * 1e3;
    let alone = at_rest(&bare).await;
    println!(
        "of one core: {alone:.1}% without a page, {served:.1}% with one that nobody looks at, {watched:.1}% with a viewer; \
         {} MiB without, {memory} MiB with; planning takes {without:.0} ms without",
        bare.memory_mib()
    );
    assert!(slow.is_empty(), "too slow: {slow:?}");
    assert!(served < alone + 5.0, "{served} beside {alone}");
    assert!(seen < unseen * SLOWER, "{seen} beside {unseen}");
    assert_eq!(painted, Vec::<String>::new(), "painted too late");
}

/// Asks for every panel again and again, and prints how long the answers take. Returns those that take too long.
async fn serve(base: &str) -> Vec<&'static str> {
    let mut slow = Vec::new();
    for panel in PANELS {
        // Older than what is kept for a second.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let mut times = Vec::new();
        let mut size = 0;
        for _ in 0..15 {
            let begun = Instant::now();
            let answer = reqwest::get(format!("{base}{panel}")).await.unwrap();
            assert!(answer.status().is_success(), "{panel}: {}", answer.status());
            size = answer.bytes().await.unwrap().len();
            times.push(begun.elapsed());
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let first = times[0];
        times.sort_unstable();
        let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
        println!(
            "{panel}: first {first:.0?}, median {median:.0?}, most {most:.0?}, {} KiB",
            size / 1024
        );
        if first >= FIRST || median >= AGAIN {
            slow.push(panel);
        }
    }
    slow
}

/// The middle of these.
fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Opens panels in a browser and prints how soon they are painted. Returns those that took too long.
async fn paint(page: &str) -> Vec<String> {
    let browser = tokio::task::spawn_blocking(Browser::install).await.unwrap();
    let browser = match browser {
        Ok(browser) => browser,
        Err(missing) => {
            println!("NOT MEASURED: how soon a browser paints. {missing}.");
            return Vec::new();
        }
    };
    let mut script = browser.script("paint.mjs");
    script.args(PANELS.iter().filter(|panel| !panel.starts_with("/api")));
    script.env("JOINER_PAGE", page);
    let output = tokio::task::spawn_blocking(move || script.output());
    let output = output.await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    let mut late = Vec::new();
    for line in said.lines() {
        let measured: Value = serde_json::from_str(line).unwrap();
        println!(
            "{}: painted first after {} ms, the answer was there after {} ms, all of it after {} ms",
            measured["path"], measured["paint"], measured["answer"], measured["load"]
        );
        let first = Duration::from_millis(measured["paint"].as_u64().unwrap());
        if first >= FIRST {
            late.push(line.to_owned());
        }
    }
    late
}

/// Percent of one core that a process takes at rest.
async fn at_rest(joiner: &Joiner) -> f64 {
    let before = joiner.cpu();
    tokio::time::sleep(REST).await;
    joiner.cpu().saturating_sub(before).as_secs_f64() * 100.0 / REST.as_secs_f64()
}
