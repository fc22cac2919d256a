//! A primary with a synchronous standby, either of which may die.

use super::*;
use crate::laws::{numbers, write_and_count};

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

/// Waits until so many more batches are acknowledged.
async fn goes_on(acknowledged: &AtomicU64, more: u64) -> Duration {
    let (began, past) = (Instant::now(), acknowledged.load(Ordering::SeqCst) + more);
    while acknowledged.load(Ordering::SeqCst) < past {
        assert!(began.elapsed() < Duration::from_secs(120), "it does not go on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    began.elapsed()
}

/// What is acknowledged is on both: so nothing is while the standby is away, and when the primary dies for
/// ever the standby has all of it, takes its place, and the same store goes on there.
#[test]
#[ignore = "needs PostgreSQL"]
fn the_loss_of_a_primary_with_a_synchronous_standby_loses_nothing() {
    const WRITERS: u64 = 4;
    let primary = Postgres::start("postgres-primary");
    let standby = primary.standby("postgres-standby");
    block_on(async {
        let admin = connect(&primary.address()).await;
        admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.unwrap();
        admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        let is_synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        while admin.query_one(is_synchronous, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let both = format!(
            "postgres://test@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
            primary.port, standby.port
        );
        let options = PostgresStore::options().timeout(Duration::from_secs(2));
        let store = options.open(both).await.unwrap();
        let memory = |i: u64| store.memory(format!("writer {i}")).unwrap();
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let writers: Vec<_> = (0..WRITERS)
            .map(|i| {
                let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
                tokio::spawn(write_and_count(Arc::new(memory(i)), stop, acknowledged))
            })
            .collect();
        goes_on(&acknowledged, 100).await;

        tokio::task::block_in_place(|| standby.server.kill());
        // An answer may be on its way still.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = acknowledged.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let meanwhile = acknowledged.load(Ordering::SeqCst) - before;
        assert_eq!(meanwhile, 0, "acknowledged, and on one machine alone");
        tokio::task::block_in_place(|| standby.server.restart());
        let back = goes_on(&acknowledged, 100).await;

        tokio::task::block_in_place(|| primary.server.kill());
        let there = connect(&standby.address()).await;
        there.execute("SELECT pg_promote()", &[]).await.unwrap();
        let over = goes_on(&acknowledged, 100).await;
        stop.store(true, Ordering::SeqCst);
        for (i, writer) in (0..).zip(writers) {
            writer.await.unwrap().check(&numbers(&memory(i)).await);
        }
        println!(
            "{} batches acknowledged, and on the standby when the primary was gone; it went on {back:?} \
             after the standby was back, and {over:?} after it was promoted",
            acknowledged.load(Ordering::SeqCst)
        );
    });
}
