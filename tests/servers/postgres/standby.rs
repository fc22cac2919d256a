//! A primary with a synchronous standby, either of which may die.

use super::*;
use crate::laws::{goes_on, numbers, write_and_count};

impl Postgres {
    /// A standby of this server, which has everything when this returns.
    fn standby(&self, name: &str) -> Self {
        let (folder, port) = (folder(name), free_port());
        give_to_postgres(&folder);
        let mut copy = command(PROGRAMS.join("pg_basebackup"));
        copy.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "test"]);
        copy.args(["-c", "fast", "-X", "stream", "-R", "-D"]).arg(folder.join("data"));
        run(copy);
        Self::over(folder, port)
    }
}

/// A primary that acknowledges what its standby has.
async fn synchronous(primary: &Postgres) {
    let admin = connect(&primary.address()).await;
    admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let is_synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    while admin.query_one(is_synchronous, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The address that leads to whichever of both takes writes.
fn either(primary: &Postgres, standby: &Postgres) -> String {
    format!(
        "postgres://test@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
        primary.port, standby.port
    )
}

/// What is acknowledged is on both: so nothing is while the standby is away, and when the primary
/// dies for ever the standby has all of it, takes its place, and the same store goes on there.
async fn the_loss_of_a_primary_with_a_synchronous_standby_loses_nothing() {
    let primary = Postgres::start("postgres-primary");
    let standby = primary.standby("postgres-standby");
    synchronous(&primary).await;
    let options = PostgresStore::options().timeout(Duration::from_secs(2));
    let store = options.open(either(&primary, &standby)).await.unwrap();
    let memory = |i: u64| store.memory(format!("writer {i}")).unwrap();
    let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let writers = begin(4, |i| {
        write_and_count(Arc::new(memory(i)), Arc::clone(&stop), Arc::clone(&acknowledged))
    });
    goes_on(&acknowledged, 100).await;

    tokio::task::block_in_place(|| standby.server.kill());
    // An answer may be on its way still, for as long as the machine likes.
    let mut left = 3;
    loop {
        let before = acknowledged.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(5)).await;
        if acknowledged.load(Ordering::SeqCst) == before {
            break;
        }
        left -= 1;
        assert!(left > 0, "acknowledged, and on one machine alone");
    }
    tokio::task::block_in_place(|| standby.server.restart());
    let back = goes_on(&acknowledged, 100).await;

    tokio::task::block_in_place(|| primary.server.kill());
    let there = connect(&standby.address()).await;
    there.execute("SELECT pg_promote()", &[]).await.unwrap();
    let over = goes_on(&acknowledged, 100).await;
    stop.store(true, Ordering::SeqCst);
    for (i, told) in (0..).zip(end(writers).await) {
        told.check(&numbers(&memory(i)).await);
    }
    println!(
        "{} batches acknowledged, and on the standby when the primary was gone; it went on {back:?} \
         after the standby was back, and {over:?} after it was promoted",
        acknowledged.load(Ordering::SeqCst)
    );
}

/// An append that was given up while it waited for the standby stood on the primary, where its
/// repetition by the same id found it, wrote nothing, waited for nobody and was acknowledged. Then
/// the primary died for ever, and what was acknowledged was on no machine. The same with a
/// conversation whose deletion was repeated: it was back.
///
/// Beside it, on the same machines: a connection that was made to a standby outlives the failover
/// in which its address moved to the new primary, and every change was an error for as long as it
/// lived.
async fn what_is_repeated_waits_for_the_standby_as_the_first_time_did() {
    let primary = Postgres::start("postgres-repeated");
    let standby = primary.standby("postgres-repeated-standby");
    let options = PostgresStore::options().timeout(Duration::from_secs(3));
    let store = options.clone().open(either(&primary, &standby)).await.unwrap();
    let (memory, gone) = (store.memory("a").unwrap(), MemoryId::from("b"));
    memory.add(Message::user("before")).await.unwrap();
    store.memory(gone.clone()).unwrap().add(Message::user("gone")).await.unwrap();
    synchronous(&primary).await;

    // The address of a machine that takes no writes, at which another one answers later.
    let moved = Between::before(standby.port);
    let there = loop {
        // Until the standby has the tables.
        if let Ok(elsewhere) = options.clone().open(address(moved.port)).await {
            break elsewhere.memory("a").unwrap();
        }
    };
    there.read(None, 1).await.unwrap();
    let error = there.add(Message::user("too early")).await.unwrap_err();
    assert_eq!(error.to_string(), "append: postgres: the database is read-only");
    moved.server.store(primary.port, Ordering::SeqCst);
    there.add(Message::user("moved")).await.unwrap();

    tokio::task::block_in_place(|| standby.server.kill());
    let append = || Append::new([Message::user("said")]).with_id("once");
    for round in 0..2 {
        let error = memory.append_with(&mut append()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unacknowledged, "append {round}: {error}");
        let error = store.delete(&gone).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unacknowledged, "delete {round}: {error}");
    }
    tokio::task::block_in_place(|| standby.server.restart());
    let again = async || loop {
        match memory.append_with(&mut append()).await {
            Ok(appended) => break appended,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unacknowledged, "{error}"),
        }
    };
    let appended = again().await;
    assert!(appended.repeated);
    assert_eq!(appended.positions, 2..3);
    store.delete(&gone).await.unwrap();

    tokio::task::block_in_place(|| primary.server.kill());
    let promoting = connect(&standby.address()).await;
    promoting.execute("SELECT pg_promote()", &[]).await.unwrap();
    let expected = ["before", "moved", "said"];
    let there = loop {
        match memory.all().await {
            Ok(there) => break there,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Storage, "{error}"),
        }
    };
    assert!(there.messages().map(|message| message.text().into_owned()).eq(expected));
    assert_eq!(store.ids(None, 10).await.unwrap(), ["a".into()]);
}

crate::tests! { block_on:
    #[ignore = "needs PostgreSQL"]
    the_loss_of_a_primary_with_a_synchronous_standby_loses_nothing,
    what_is_repeated_waits_for_the_standby_as_the_first_time_did;
}
