//! Machines outlive the process that plays the cloud, and only one process plays it at a time.

use std::collections::BTreeMap;

use joiner_core::name::Name;
use joiner_providers::LedgerEntry;

use super::*;

/// What is written down, in the form in which it is, and who terms.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    lines: BTreeMap<Name, LedgerEntry>,
    terms: BTreeMap<&'static str, u64>,
    torn: bool,
}

impl Book {
    fn crown(&self, who: &'static str, term: u64) {
        self.0.lock().unwrap().terms = BTreeMap::from([(who, term)]);
    }
}

struct Reader(Book, &'static str);

impl Reader {
    fn torn(&self) -> Result<(), ProviderError> {
        let torn = self.0.0.lock().unwrap().torn;
        if torn {
            return Err(ProviderError::Transient("the book is torn".to_owned()));
        }
        Ok(())
    }
}

#[async_trait]
impl Ledger for Reader {
    fn term(&self) -> Option<u64> {
        self.0.0.lock().unwrap().terms.get(self.1).copied()
    }

    async fn load(&self) -> Result<Vec<LedgerEntry>, ProviderError> {
        let pages = self.0.0.lock().unwrap();
        Ok(pages.lines.values().cloned().collect())
    }

    async fn store(&self, entry: &LedgerEntry) -> Result<(), ProviderError> {
        self.torn()?;
        let mut pages = self.0.0.lock().unwrap();
        pages.lines.insert(entry.key.clone(), entry.clone());
        Ok(())
    }

    async fn erase(&self, key: &str) -> Result<(), ProviderError> {
        self.torn()?;
        self.0.0.lock().unwrap().lines.remove(key);
        Ok(())
    }
}

fn process(book: &Book, who: &'static str) -> (SimCloud, Arc<Recorded>) {
    let rack = Arc::new(Recorded::default());
    let cloud = SimCloud::remembering(
        SimCloudOptions::calm(built_in(), 1),
        Clock::virtual_time(),
        Arc::clone(&rack) as Arc<dyn Rack>,
        Arc::new(Reader(book.clone(), who)),
    );
    let runner = cloud.clone();
    tokio::spawn(async move { runner.run().await });
    (cloud, rack)
}

async fn minute() {
    tokio::time::sleep(Duration::from_secs(61)).await;
}

#[tokio::test(start_paused = true)]
async fn the_next_process_finds_the_machines_of_the_one_before() {
    let book = Book::default();
    book.crown("first", 1);
    let ((first, old), (second, new)) = (process(&book, "first"), process(&book, "second"));
    let order = request("u1", CapacityType::OnDemand);
    let machine = first.launch(&order).await.unwrap();
    minute().await;
    assert!(second.list().await.is_err(), "only one process plays");
    book.crown("second", 1);
    minute().await;
    assert_eq!(
        old.lines(),
        ["boot node-u1 sim:///sim-a/u1", "kill node-u1"]
    );
    assert_eq!(new.lines(), ["boot node-u1 sim:///sim-a/u1"]);
    assert_eq!(second.launch(&order).await.unwrap().id, machine.id);
    assert_eq!(second.list().await.unwrap().len(), 1);
    assert!(first.launch(&order).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_ended_meanwhile_does_not_come_back() {
    let book = Book::default();
    book.crown("first", 1);
    let ((first, _), (second, _)) = (process(&book, "first"), process(&book, "second"));
    let order = request("u1", CapacityType::OnDemand);
    let machine = first.launch(&order).await.unwrap();
    minute().await;
    book.crown("second", 1);
    second.terminate(&machine.id).await.unwrap();
    minute().await;
    assert!(book.0.lock().unwrap().lines.is_empty());
    book.crown("first", 2);
    assert!(first.list().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_not_written_down_does_not_run() {
    let book = Book::default();
    book.crown("first", 1);
    let (cloud, rack) = process(&book, "first");
    book.0.lock().unwrap().torn = true;
    let order = request("u1", CapacityType::OnDemand);
    assert!(cloud.launch(&order).await.is_err());
    minute().await;
    assert!(rack.lines().is_empty());
    book.0.lock().unwrap().torn = false;
    cloud.launch(&order).await.unwrap();
    minute().await;
    assert_eq!(rack.lines().len(), 1);
    assert_eq!(cloud.list().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_erased_is_erased_later() {
    let book = Book::default();
    book.crown("first", 1);
    let (cloud, _) = process(&book, "first");
    let machine = cloud
        .launch(&request("u1", CapacityType::OnDemand))
        .await
        .unwrap();
    cloud.terminate(&machine.id).await.unwrap();
    book.0.lock().unwrap().torn = true;
    minute().await;
    assert!(cloud.list().await.unwrap().is_empty());
    assert_eq!(book.0.lock().unwrap().lines.len(), 1);
    book.0.lock().unwrap().torn = false;
    minute().await;
    assert!(book.0.lock().unwrap().lines.is_empty());
}
