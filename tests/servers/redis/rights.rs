//! The account that the documentation describes may do all that a store does, and no more; and who
//! is no server at all is told so.

use std::fs;
use std::time::SystemTime;

use memory_prompt::memory::{Append, Expected, Read};
use memory_prompt::{AsyncChatMemoryExt, ErrorKind, Message};

use super::media::picture;
use super::*;
use crate::laws::failed;

/// The rights as they stand in the documentation of the module.
fn rights() -> Vec<String> {
    let text = include_str!("../../../src/store/redis.rs");
    let begin = text.find("ACL SETUSER chat").unwrap();
    let listed = &text[begin..begin + text[begin..].find("```").unwrap()];
    listed.replace("//!", " ").split_whitespace().map(str::to_owned).collect()
}

async fn the_rights_that_are_documented_are_enough_and_each_is_needed() {
    let (_server, port) = server("redis-rights", &[]);
    let grant = |rights: Vec<String>| async move {
        let mut all = cmd("ACL");
        all.arg("SETUSER").arg("chat").arg("reset");
        all.arg(&rights[3..]);
        ask::<()>(port, &all).await;
    };
    grant(rights()).await;
    let address = format!("redis://chat:password@127.0.0.1:{port}");
    live(&address).await.unwrap();
    // `ping` is the operator's, and the version is marked once.
    for right in rights().iter().filter(|right| right.starts_with('+')) {
        ask::<()>(port, &cmd("FLUSHALL")).await;
        ask::<()>(port, cmd("SCRIPT").arg("FLUSH")).await;
        grant(rights().into_iter().filter(|one| one != right).collect()).await;
        let error = live(&address).await.expect_err(right);
        assert_eq!(error.kind(), ErrorKind::Storage, "{right}: {error}");
        assert!(!error.to_string().contains("my secret"), "{error}");
    }
    // Keys of others are none of its business.
    grant(rights()).await;
    let other = RedisStore::options().prefix("another").open(&address).await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Storage);
    assert!(other.to_string().to_lowercase().contains("permission"), "{other}");
}

/// All that a store does.
async fn live(address: &str) -> memory_prompt::Result<()> {
    let timeout = Duration::from_secs(5);
    let store = RedisStore::options().timeout(timeout).open(address).await?;
    store.ping().await?;
    let memory = store.memory("a:b:c")?;
    memory.add_all([Message::system("be brief"), Message::user("my secret")]).await?;
    let append = || Append::new([Message::ai("hello"), Message::user("1"), Message::user("2")]);
    let slots = |append: Append| append.with_id("once").set_slot("a", "x", Expected::Any);
    memory.append_with(&mut slots(append())).await?;
    assert!(memory.append_with(&mut slots(append())).await?.repeated);
    memory.append_with(&mut Append::default().remove_slot("a", Expected::Any)).await?;
    memory.read_with(&Read::newest(1).slots(["a"]).positions([0])).await?;
    memory.slots().await?;
    memory.add(picture(1)).await?;
    memory.evict(1).await?;
    memory.clear().await?;
    let dying = RedisStore::options().timeout(timeout).ttl(Duration::from_millis(50));
    let dying = dying.open(address).await?.memory("dies")?;
    dying.add(Message::user("0")).await?;
    tokio::time::sleep(Duration::from_millis(60)).await;
    dying.add(Message::user("1")).await?;
    store.memory("dies")?.add(Message::user("2")).await?;
    store.ids(None, 10).await?;
    store.info(&"a:b:c".into()).await?;
    store.restore(&"restored".into(), 7, None).await?;
    store.delete(&"restored".into()).await?;
    store.delete_prefix("a:").await?;
    store.purge_inactive(SystemTime::now() + Duration::from_secs(60)).await.map(drop)
}

async fn a_sentinel_is_refused_with_a_word_that_says_so() {
    let (place, port) = (folder("redis-sentinel"), free_port());
    fs::write(place.join("sentinel.conf"), format!("port {port}\nbind 127.0.0.1\n")).unwrap();
    let home = place.clone();
    let command = move || {
        let mut sentinel = Command::new("redis-server");
        sentinel.arg(home.join("sentinel.conf")).arg("--sentinel");
        sentinel
    };
    let ready = move || TcpStream::connect(("127.0.0.1", port)).is_ok();
    let _sentinel = Server::start(place, command, ready);
    let error = RedisStore::open(&address(port)).await.unwrap_err();
    let expected = format!(
        "open: redis: 127.0.0.1:{port} is a Redis Sentinel, or something else that keeps no data: \
         name the master"
    );
    failed(&error, &expected);
}

crate::tests! { run:
    #[ignore = "needs redis-server"]
    the_rights_that_are_documented_are_enough_and_each_is_needed,
    a_sentinel_is_refused_with_a_word_that_says_so;
}
