//! A server that wants TLS, with an authority that nobody knows.

use super::*;
use crate::certificates::certificates;

#[test]
#[ignore = "needs PostgreSQL and openssl"]
fn a_server_that_wants_tls() {
    let postgres = Postgres::start("postgres-tls");
    let (data, port) = (postgres.folder.join("data"), postgres.port);
    certificates(&data);
    block_on(async {
        let roles = "CREATE ROLE admin LOGIN SUPERUSER; CREATE ROLE certified LOGIN";
        connect(&postgres.address()).await.batch_execute(roles).await.unwrap();
    });
    let settings = "ssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server.key'\n\
                    ssl_ca_file = 'ca.pem'\n";
    fs::write(data.join("postgresql.auto.conf"), settings).unwrap();
    let rights = "host all admin 127.0.0.1/32 trust\n\
                  hostssl all test 127.0.0.1/32 trust\n\
                  hostssl all certified 127.0.0.1/32 cert map=all\n";
    fs::write(data.join("pg_hba.conf"), rights).unwrap();
    fs::write(data.join("pg_ident.conf"), "all client certified\n").unwrap();
    let mut chown = Command::new("chown");
    chown.args(["-R", "--reference"]).arg(&data).arg(&data);
    run(chown);
    let mut chmod = Command::new("chmod");
    chmod.arg("600").arg(data.join("server.key"));
    run(chmod);
    postgres.server.kill();
    postgres.server.restart();
    let authority = fs::read(data.join("ca.pem")).unwrap();
    let [certificate, key] =
        ["client.pem", "client.key"].map(|name| fs::read(data.join(name)).unwrap());
    block_on(async {
        let plain = address(port);
        let error = options("tls").open(&plain).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage);
        let text = error.to_string();
        assert!(
            text.ends_with("; if it wants TLS: write `sslmode=require` in the address"),
            "{text}"
        );

        let asked = format!("{plain}?sslmode=require");
        let error = options("tls").open(&asked).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert!(error.to_string().contains("certificate"), "{error}");

        for address in [&plain, &asked, &asked.replace("127.0.0.1", "localhost")] {
            let with = options("tls").max_connections(1).authority(authority.clone());
            let memory = with.open(address).await.unwrap().memory(address.as_str()).unwrap();
            for _ in 0..3 {
                memory.add(Message::user("hi")).await.unwrap();
            }
            assert_eq!(all_texts(&memory).await, ["hi"; 3]);
        }

        // Who gives up cancels by TLS too.
        let admin = format!("postgres://admin@127.0.0.1:{port}/postgres");
        let mut admin = connect(&admin).await;
        let lock = admin.transaction().await.unwrap();
        lock.batch_execute("SELECT FROM tls.conversation FOR UPDATE").await.unwrap();
        let store = options("tls").max_connections(1).authority(authority.clone());
        let memory = store.open(&plain).await.unwrap().memory(plain.as_str()).unwrap();
        let append = memory.add(Message::user("given up"));
        tokio::time::timeout(Duration::from_millis(200), append).await.unwrap_err();
        assert_eq!(all_texts(&memory).await, ["hi"; 3], "there is a connection for this");
        lock.rollback().await.unwrap();

        let grant = "GRANT USAGE ON SCHEMA tls TO certified;
                     GRANT SELECT ON ALL TABLES IN SCHEMA tls TO certified";
        admin.batch_execute(grant).await.unwrap();
        let certified = plain.replace("test@", "certified@");
        let with = options("tls").authority(authority);
        assert_eq!(with.clone().open(&certified).await.unwrap_err().kind(), ErrorKind::Storage);
        let with = with.certificate(certificate, key);
        let store = with.clone().open(&certified).await.unwrap();
        assert_eq!(all_texts(&store.memory(plain.as_str()).unwrap()).await, ["hi"; 3]);
        let shown = format!("{with:?}");
        assert!(shown.contains("Certificates { .. }"), "a key is not shown: {shown}");
    });
}

#[test]
fn certificates_that_make_no_sense_are_refused() {
    block_on(async {
        let nothing = PostgresStore::options().authority("nothing");
        let error = nothing.open(address(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = "open: postgres: the authority's file holds no certificate";
        assert_eq!(error.to_string(), text);
    });
}
