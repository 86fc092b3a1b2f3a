//! The terminal, the clock and whoever is asked: everything of `joiner top` that waits.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_controllers::decisions::Kind;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::draw::{self, Paint};
use super::state::{Asked, Next, Origin, Picture, Screen};
use crate::args::TopArgs;
use crate::ask::Source;
use crate::demo::colours_wanted;
use crate::failure::Failure;
use crate::why;

/// How often ages are drawn anew.
const TICK: Duration = Duration::from_secs(1);

/// What the answers bring.
enum News {
    /// The nodes.
    Picture(Result<Box<Picture>, Failure>),
    /// Why one of them is as it is.
    Why(Asked, Result<String, Failure>),
}

/// Shows the nodes until a key or a signal ends it.
pub(super) async fn run(args: &TopArgs) -> Result<(), Failure> {
    if args.ask.api.is_none() {
        // Lists and catalogues may take a while; standard error may be closed.
        let _ = writeln!(io::stderr(), "joiner: reading the cluster");
    }
    let source = Source::open(&args.ask).await?;
    // Whoever cannot be asked at all is an error, as for every other command.
    let first = look(&source).await?;
    let origin = Origin {
        name: source.name(),
        page: matches!(source, Source::Page(_)),
    };
    let mut screen = Screen::new(origin, first, args.sort, &args.filter);
    let (asked, questions) = watch::channel(None);
    let (answers, mut news) = mpsc::channel(4);
    let source = Arc::new(source);
    let mut asking = JoinSet::new();
    asking.spawn(look_again(source.clone(), args.interval, answers.clone()));
    asking.spawn(explain(source, args.interval, questions, answers));

    let mut ended = [
        signal(SignalKind::terminate()).map_err(Failure::System)?,
        signal(SignalKind::hangup()).map_err(Failure::System)?,
        signal(SignalKind::interrupt()).map_err(Failure::System)?,
    ];
    let [terminated, hung_up, interrupted] = &mut ended;
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let paint = Paint::new(colours_wanted());
    let mut shown = Shown::start()?;
    let mut keys = keys();
    loop {
        shown.draw(&mut screen, paint)?;
        tokio::select! {
            event = keys.recv() => match event {
                Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => {
                    if screen.press(key) == Next::End {
                        return Ok(());
                    }
                    asked.send_if_modified(|asked| {
                        let new = screen.asked().cloned();
                        let changed = *asked != new;
                        *asked = new;
                        changed
                    });
                }
                // A new size is drawn like anything else.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(Failure::System(error)),
                None => return Ok(()),
            },
            Some(one) = news.recv() => match one {
                News::Picture(Ok(picture)) => screen.read(*picture),
                News::Picture(Err(failure)) => screen.failed(failure.to_string()),
                News::Why(of, Ok(said)) => screen.explained(&of, said),
                News::Why(of, Err(failure)) => screen.explained(&of, failure.to_string()),
            },
            _ = tick.tick() => {}
            Some(_) = asking.join_next() => {
                return Err(Failure::Broken("nobody asks for the nodes any more".to_owned()));
            }
            _ = terminated.recv() => return Ok(()),
            _ = hung_up.recv() => return Ok(()),
            _ = interrupted.recv() => return Ok(()),
        }
    }
}

/// The terminal while nodes are shown on it; it is as it was when this is dropped, however that comes about.
struct Shown(DefaultTerminal);

impl Shown {
    fn start() -> Result<Self, Failure> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Shown(terminal)),
            Err(error) => {
                // Half of it may have been done.
                let _ = ratatui::try_restore();
                Err(Failure::stdout(error))
            }
        }
    }

    fn draw(&mut self, screen: &mut Screen, paint: Paint) -> Result<(), Failure> {
        let now = Timestamp::now();
        let size = self.0.size().map_err(Failure::stdout)?;
        screen.fit(draw::room(screen, now, size));
        let drawn = self.0.draw(|frame| draw::draw(frame, screen, now, paint));
        drawn.map_err(Failure::stdout)?;
        Ok(())
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = ratatui::try_restore();
    }
}

/// Keys and new sizes, as they come.
fn keys() -> mpsc::UnboundedReceiver<io::Result<Event>> {
    let (sender, keys) = mpsc::unbounded_channel();
    // Reading blocks, until the process ends if no key comes.
    std::thread::spawn(move || {
        loop {
            let read = event::read();
            let failed = read.is_err();
            if sender.send(read).is_err() || failed {
                return;
            }
        }
    });
    keys
}

async fn look(source: &Source) -> Result<Picture, Failure> {
    let overview = source.overview().await?;
    let nodes = source.nodes("", "").await?;
    Ok(Picture {
        overview,
        total: nodes.total,
        nodes: nodes.nodes,
        read: Timestamp::now(),
    })
}

/// Looks at the nodes again and again, for as long as there is who listens.
async fn look_again(source: Arc<Source>, every: Duration, answers: mpsc::Sender<News>) {
    loop {
        sleep(every).await;
        let picture = look(&source).await.map(Box::new);
        if answers.send(News::Picture(picture)).await.is_err() {
            return;
        }
    }
}

/// Says why a node is as it is, at once and again and again, while that is asked.
async fn explain(
    source: Arc<Source>,
    every: Duration,
    mut questions: watch::Receiver<Option<Asked>>,
    answers: mpsc::Sender<News>,
) {
    loop {
        let asked = questions.borrow_and_update().clone();
        if let Some(asked) = asked {
            let said = reason(&source, &asked).await;
            if answers.send(News::Why(asked, said)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = sleep(every) => {}
            changed = questions.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// As `joiner why` says it; of a machine while it has not joined.
async fn reason(source: &Source, asked: &Asked) -> Result<String, Failure> {
    let of_node = source.why(Kind::Node, &asked.name).await;
    let found = match (of_node, &asked.machine) {
        (Err(Failure::Manifest(_)), Some(machine)) => source.why(Kind::Machine, machine).await?,
        (found, _) => found?,
    };
    Ok(why::told(&found))
}
