//! Servers that are killed, silent, full, or of another opinion about who may do what.

#![allow(clippy::await_holding_lock)] // each test has a runtime of its own

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::AtomicI64;
use std::sync::{MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use memory_prompt::memory::{Append, Expected};
use memory_prompt::store::cassandra::driver::errors::NewSessionError;
use memory_prompt::{AsyncChatMemoryExt, ErrorKind, Message};

use super::*;
use crate::laws::{self, failed};
use crate::tasks::{begin, end};

/// A server to do harm to: one test at a time. It asks for passwords, and its disk is full for
/// everybody but its superuser.
fn risky() -> MutexGuard<'static, Node> {
    static NODE: LazyLock<Mutex<Node>> = LazyLock::new(|| {
        let node = Node::start(
            "authenticator: PasswordAuthenticator
authorizer: CassandraAuthorizer
data_disk_usage_percentage_warn_threshold: 1
data_disk_usage_percentage_fail_threshold: 2
data_disk_usage_max_disk_size: 1MiB
",
        );
        // The superuser comes a moment after the server.
        let patience = Instant::now() + Duration::from_secs(60);
        while let Err(error) = wait(session(&node.address)) {
            assert!(Instant::now() < patience, "there is no superuser: {error}");
        }
        Mutex::new(node)
    });
    NODE.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn session(address: &str) -> Result<Session, NewSessionError> {
    SessionBuilder::new().known_node(address).user("cassandra", "cassandra").build().await
}

fn superuser() -> CassandraOptions {
    CassandraStore::options().user("cassandra", "cassandra").timeout(PATIENCE)
}

async fn a_server_that_is_killed_loses_nothing() {
    let node = risky();
    superuser().open(&node.address).await.unwrap(); // makes the tables
    // A change without an answer is sent again for three times as long as this.
    let options = superuser().timeout(Duration::from_secs(10));
    let store = options.open(&node.address).await.unwrap();
    laws::a_server_that_is_killed_loses_nothing(Arc::new(store), &node.server, 2).await;
}

async fn the_last_ten_of_a_million_cost_what_they_cost_of_a_hundred() {
    let node = risky();
    let store = superuser().keyspace("million").open(&node.address).await.unwrap();
    let law = laws::the_last_ten_of_a_million_cost_what_they_cost_of_a_hundred;
    law(Arc::new(store)).await;
}

#[test]
fn a_server_that_accepts_and_never_answers_is_an_error_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let options = CassandraStore::options().connect_timeout(Duration::from_secs(1));
    let mut fewest = Duration::MAX;
    // A busy machine may stand still once.
    for _ in 0..3 {
        let began = Instant::now();
        let error = wait(options.clone().open(&address)).unwrap_err();
        fewest = fewest.min(began.elapsed());
        let expected = format!("open: cassandra: no answer from {address} within 1s");
        failed(&error, &expected);
    }
    assert!(fewest < Duration::from_secs(3), "{fewest:?}");
}

async fn a_server_that_falls_silent_is_an_error_in_time_and_nothing_is_lost() {
    let node = risky();
    let options = superuser().keyspace("silent").timeout(Duration::from_secs(5));
    let memory = options.open(&node.address).await.unwrap().memory("silent").unwrap();
    memory.add(Message::user("0")).await.unwrap();
    let within = |began: Instant| {
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    };
    node.server.freeze();
    let began = Instant::now();
    let error = memory.latest(1).await.unwrap_err();
    within(began);
    assert_eq!(error.to_string(), "read: cassandra: no answer within 5s");
    let began = Instant::now();
    let mut batch = vec![Message::user("1")];
    let error = memory.append(&mut batch, Some(1)).await.unwrap_err();
    within(began);
    // It had not even asked where the conversation ends.
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert_eq!(batch.len(), 1);
    node.server.thaw();
    goes_on(&memory).await;
    memory.append(&mut batch, Some(1)).await.unwrap();
    assert_eq!(memory.all().await.unwrap().len(), 2);
}

/// Waits until the client has seen that the server is back.
async fn goes_on(memory: &dyn AsyncChatMemory) {
    let patience = Instant::now() + Duration::from_secs(60);
    while let Err(error) = memory.next_position().await {
        assert!(Instant::now() < patience, "the client did not come back: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Hands on what both sides say, and cuts the line instead of the answer whose turn it is.
struct Proxy {
    address: String,
    /// How many more answers get through; negative where all do.
    answers: Arc<AtomicI64>,
    /// How late each answer comes, in milliseconds.
    late: Arc<AtomicU64>,
}

impl Proxy {
    fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answers = Arc::new(AtomicI64::new(-1));
        let (server, countdown) = (server.to_owned(), Arc::clone(&answers));
        let late = Arc::new(AtomicU64::new(0));
        let delay = Arc::clone(&late);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                // If there is no server now, the line is cut at once.
                let Ok(server) = TcpStream::connect(&server) else { continue };
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                let (countdown, delay) = (Arc::clone(&countdown), Arc::clone(&delay));
                thread::spawn(move || answer(server, client, &countdown, &delay));
            }
        });
        Self { address, answers, late }
    }
}

fn answer(mut server: TcpStream, mut client: TcpStream, countdown: &AtomicI64, delay: &AtomicU64) {
    let mut buffer = vec![0; 1 << 20];
    while server.peek(&mut buffer[..1]).is_ok() {
        // Once for all that has come by then: an answer may come in pieces.
        thread::sleep(Duration::from_millis(delay.load(Ordering::Relaxed)));
        let Ok(len) = server.read(&mut buffer) else { break };
        if len == 0 || countdown.fetch_sub(1, Ordering::SeqCst) == 0 {
            break;
        }
        if client.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

/// An answer that got lost does not make an append happen twice, whatever others append meanwhile.
async fn appends_whose_answers_get_lost_are_done_once() {
    const ROUNDS: u64 = 24;
    let (keyspace, direct) = Keyspace::take(CassandraStore::options()).await;
    let proxy = Proxy::start(&NODE.address);
    let options = CassandraStore::options().keyspace(&keyspace.0);
    let memory = options.open(&proxy.address).await.unwrap().memory("lost").unwrap();
    let rival = direct.memory("lost").unwrap();
    let rivals = Arc::new(AtomicU64::new(0));
    let (mut acknowledged, mut unknown, mut refused) = (Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS {
        // In every other round somebody else appends all the while.
        let others = (round % 2 == 1).then(|| {
            let (rival, rivals) = (rival.clone(), Arc::clone(&rivals));
            tokio::spawn(async move {
                loop {
                    rival.add(Message::user("rival")).await.unwrap();
                    rivals.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        // First it is asked where the conversation ends; the answer after that is the append's.
        let passed = i64::try_from(1 + round / 2 % 3).unwrap();
        proxy.answers.store(passed, Ordering::SeqCst);
        let batch = (0..3).map(|k| Message::user(format!("{round} {k}")));
        match memory.add_all(batch).await {
            Ok(positions) => acknowledged.push((round, positions.start)),
            Err(error) if error.kind() == ErrorKind::Unacknowledged => unknown.push(round),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
                refused += 1;
            }
        }
        proxy.answers.store(-1, Ordering::SeqCst);
        if let Some(others) = others {
            others.abort();
        }
        goes_on(&memory).await;
    }
    let all = rival.all().await.unwrap();
    let texts: Vec<_> = all.messages().map(|message| message.text().into_owned()).collect();
    for round in 0..ROUNDS {
        let first = format!("{round} 0");
        let found: Vec<_> = (0..texts.len()).filter(|i| texts[*i] == first).collect();
        let whole = |i: &usize| (0..3).all(|k| texts[i + k] == format!("{round} {k}"));
        assert!(found.iter().all(whole), "round {round} is there by half");
        match acknowledged.iter().find(|(number, _)| *number == round) {
            Some((_, at)) => assert_eq!(found, [usize::try_from(*at).unwrap()]),
            None if unknown.contains(&round) => assert!(found.len() <= 1, "twice: {round}"),
            None => assert!(found.is_empty(), "round {round} was refused and is there"),
        }
    }
    let rivals = rivals.load(Ordering::Relaxed);
    println!(
        "{} of {ROUNDS} appends acknowledged, {} unknown, {refused} refused, beside {rivals} others",
        acknowledged.len(),
        unknown.len()
    );
    assert!(rivals > 0);
    assert!(acknowledged.len() as u64 * 2 >= ROUNDS, "most answers can be found out about");
}

/// The second look at what seems to be lost, with which nothing is wrong but the row, counted as a
/// race against others: where the first one took more than twice the timeout, for it is several
/// requests, each read of that conversation was an error, and all that is there was out of reach.
async fn what_is_lost_is_told_though_it_takes_long_to_look() {
    const LATE: Duration = Duration::from_millis(1_050);
    const TIMEOUT: Duration = Duration::from_millis(2_400);
    let (keyspace, direct) = Keyspace::take(CassandraStore::options()).await;
    let memory = direct.memory("slow").unwrap();
    memory.add_all((0..2600).map(|i| Message::user(i.to_string()))).await.unwrap();
    memory.add(Message::user("2600")).await.unwrap();
    let session = super::session(&NODE.address).await;
    let head = format!("SELECT log FROM {}.conversation WHERE id = 'slow' LIMIT 1", keyspace.0);
    let head = session.query_unpaged(head, ()).await.unwrap().into_rows_result().unwrap();
    let (log,) = head.single_row::<(uuid::Uuid,)>().unwrap();
    let lose =
        format!("DELETE FROM {}.message WHERE log = ? AND bucket = ? AND position = ?", keyspace.0);
    session.query_unpaged(lose, (log, 1_i64, 700_i64)).await.unwrap();

    let proxy = Proxy::start(&NODE.address);
    let options = CassandraStore::options().keyspace(&keyspace.0).timeout(TIMEOUT);
    let memory = options.open(&proxy.address).await.unwrap().memory("slow").unwrap();
    proxy.late.store(u64::try_from(LATE.as_millis()).unwrap(), Ordering::Relaxed);
    let began = Instant::now();
    let read = memory.read(None, usize::MAX).await.unwrap();
    let took = began.elapsed();
    assert!(took > TIMEOUT * 4, "both looks took {took:?}: that shows nothing");
    assert_eq!((read.records.len(), read.end), (2600, 2601));
    assert_eq!(read.unreadable.iter().map(|lost| lost.position).collect::<Vec<_>>(), [700]);
    println!("a lost row was told after {took:?}");
}

#[test]
fn addresses_that_make_no_sense_are_named() {
    let open = |address: &'static str| wait(CassandraStore::open(address)).unwrap_err();
    let nobody = open("127.0.0.1:1");
    assert_eq!(nobody.kind(), ErrorKind::Storage);
    assert!(
        nobody.to_string().starts_with("open: cassandra: 127.0.0.1:1 can't be reached: "),
        "{nobody}"
    );
    let unknown = open("no-such-host.invalid:9042");
    assert!(unknown.to_string().contains("no-such-host.invalid"), "{unknown}");
    let none = open(" ,");
    assert_eq!(none.kind(), ErrorKind::Invalid);
    assert_eq!(none.to_string(), "open: cassandra: there is no address to connect to");
    let keyspace = CassandraStore::options().keyspace("a; DROP");
    let keyspace = wait(keyspace.open("127.0.0.1:1")).unwrap_err();
    assert_eq!(keyspace.kind(), ErrorKind::Invalid);
    assert_eq!(
        keyspace.to_string(),
        "open: cassandra: \"a; DROP\" can't be the name of a keyspace"
    );
}

#[test]
#[ignore = "needs Apache Cassandra"]
fn no_debug_output_and_no_error_shows_a_password() {
    let node = risky();
    let options = CassandraStore::options().user("cassandra", "s3cret");
    assert!(format!("{options:?}").contains("user: Some(\"cassandra\")"));
    assert!(!format!("{options:?}").contains("s3cret"));
    let error = wait(options.open(&node.address)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(
        error.to_string().contains("Provided username cassandra and/or password are incorrect"),
        "{error}"
    );
    assert!(!format!("{error} {error:?}").contains("s3cret"));
    let store = wait(superuser().open(&node.address)).unwrap();
    assert!(!format!("{store:?}").contains("password"));
}

/// One replica of three is no majority.
async fn too_few_replicas_are_an_error_that_says_so() {
    let options = CassandraStore::options()
        .keyspace("few")
        .timeout(PATIENCE)
        .replication("{'class': 'SimpleStrategy', 'replication_factor': 3}");
    let error = options.open(&NODE.address).await.unwrap_err();
    failed(&error, "open: cassandra: 1 replicas are alive, and 2 are needed");
}

/// Both what may not be written and what there is no room for.
async fn a_full_disk_and_a_user_who_may_only_read_are_errors_and_nothing_is_lost() {
    let node = risky();
    let store = superuser().keyspace("full").open(&node.address).await.unwrap();
    let memory = store.memory("full").unwrap();
    memory.add(Message::user("before")).await.unwrap();
    let session = session(&node.address).await.unwrap();
    for cql in [
        "CREATE ROLE IF NOT EXISTS writer WITH PASSWORD = 'w' AND LOGIN = true",
        "CREATE ROLE IF NOT EXISTS reader WITH PASSWORD = 'r' AND LOGIN = true",
        r#"GRANT SELECT ON KEYSPACE "full" TO writer"#,
        r#"GRANT MODIFY ON KEYSPACE "full" TO writer"#,
        r#"GRANT SELECT ON KEYSPACE "full" TO reader"#,
    ] {
        session.query_unpaged(cql, ()).await.unwrap();
    }
    for (user, password, reason) in [("writer", "w", "disk"), ("reader", "r", "may not")] {
        let options = CassandraStore::options().keyspace("full").user(user, password);
        let memory = options.open(&node.address).await.unwrap().memory("full").unwrap();
        for count in [1, 1500] {
            let mut batch = vec![Message::user("after"); count];
            let error = memory.append(&mut batch, Some(1)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
            assert!(error.to_string().contains(reason), "{error}");
            assert_eq!(batch.len(), count);
        }
        assert_eq!(memory.all().await.unwrap().len(), 1);
    }
    memory.add(Message::user("after")).await.unwrap();
    assert_eq!(memory.all().await.unwrap().len(), 2);
}

/// The story: a bot hears nothing of its first try, and sends the same update again. Whatever gets
/// cut or dies in between, the update is there once, where the answer says.
///
/// `MEMORY_PROMPT_CASES` says how many updates.
async fn appends_repeated_by_id_over_cut_answers_and_kills_are_done_once() {
    const WRITERS: u64 = 4;
    let all = std::env::var("MEMORY_PROMPT_CASES").ok().and_then(|all| all.parse().ok());
    let all = all.unwrap_or(400_u64);
    let each = all.div_ceil(WRITERS);
    let node = risky();
    superuser().keyspace("repeated").open(&node.address).await.unwrap();
    let proxy = Proxy::start(&node.address);
    let options = || superuser().keyspace("repeated").timeout(Duration::from_secs(5));
    let tries = Arc::new(AtomicU64::new(0));
    let store = options().open(&proxy.address).await.unwrap();
    let writers = begin(WRITERS, |writer| {
        let tries = Arc::clone(&tries);
        let memory = store.memory(format!("repeated {writer}")).unwrap();
        async move {
            let mut told = Vec::new();
            for number in 0..each {
                let update = || {
                    let texts = (0..2).map(|k| Message::user(format!("{writer} {number} {k}")));
                    let update = Append::new(texts).with_id(format!("{writer} {number}"));
                    update.set_slot(format!("last {writer}"), number.to_string(), Expected::Any)
                };
                // Each is sent until it is acknowledged, and some once more.
                loop {
                    tries.fetch_add(1, Ordering::Relaxed);
                    match memory.append_with(&mut update()).await {
                        Ok(appended) => {
                            told.push(appended.positions);
                            if number % 3 != 0 {
                                break;
                            }
                            let again = memory.append_with(&mut update()).await;
                            let Ok(again) = again else { continue };
                            assert!(again.repeated);
                            assert_eq!(Some(&again.positions), told.last());
                            break;
                        }
                        Err(error) => {
                            let kind = error.kind();
                            assert!(
                                [ErrorKind::Storage, ErrorKind::Unacknowledged].contains(&kind),
                                "{error}"
                            );
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                    }
                }
                told.dedup();
            }
            told
        }
    });
    // Every so often an answer is cut off, and twice the server dies.
    let between = i64::try_from(all / 20).unwrap();
    let (mut cuts, mut kills) = (0, 0);
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        if proxy.answers.load(Ordering::SeqCst) < 0 {
            proxy.answers.store(between + cuts * 7 % 23, Ordering::SeqCst);
            cuts += 1;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let done = tries.load(Ordering::Relaxed) >= all * (kills + 1) / 3;
        if kills < 2 && done {
            kills += 1;
            node.server.die_and_return();
        }
    }
    let store = superuser().keyspace("repeated").open(&node.address).await.unwrap();
    for (writer, told) in (0..).zip(end(writers).await) {
        let memory = store.memory(format!("repeated {writer}")).unwrap();
        let all = memory.all().await.unwrap();
        assert_eq!(all.len() as u64, each * 2, "each is there once");
        assert_eq!(told.len() as u64, each);
        for (number, positions) in told.into_iter().enumerate() {
            for (k, position) in positions.enumerate() {
                let record = all.iter().nth(usize::try_from(position).unwrap()).unwrap();
                assert_eq!(record.message().text(), format!("{writer} {number} {k}"));
            }
        }
        let last = memory.slot(format!("last {writer}")).await.unwrap().unwrap();
        assert_eq!(last.text(), Some(&*(each - 1).to_string()));
    }
    assert!(cuts > 0 && kills == 2);
    println!(
        "{} appends by id were sent {} times over {cuts} cut answers and {kills} kills",
        each * WRITERS,
        tries.load(Ordering::Relaxed)
    );
}

/// A change names the version that it replaces, so one that was dropped is done before whatever is
/// acknowledged later, by anybody, or never.
async fn what_was_dropped_is_never_done_over_what_anybody_did_afterwards() {
    let (keyspace, others) = Keyspace::take(CassandraStore::options()).await;
    let options = CassandraStore::options().keyspace(&keyspace.0);
    let store = options.open(&NODE.address).await.unwrap();
    laws::what_was_dropped_is_not_done_later(Arc::new(store), Arc::new(others), 40).await;
}

crate::tests! { wait:
    #[ignore = "needs Apache Cassandra"]
    a_server_that_is_killed_loses_nothing,
    the_last_ten_of_a_million_cost_what_they_cost_of_a_hundred,
    a_server_that_falls_silent_is_an_error_in_time_and_nothing_is_lost,
    appends_whose_answers_get_lost_are_done_once,
    what_is_lost_is_told_though_it_takes_long_to_look,
    too_few_replicas_are_an_error_that_says_so,
    a_full_disk_and_a_user_who_may_only_read_are_errors_and_nothing_is_lost,
    appends_repeated_by_id_over_cut_answers_and_kills_are_done_once,
    what_was_dropped_is_never_done_over_what_anybody_did_afterwards;
}
