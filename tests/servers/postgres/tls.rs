//! A server that wants TLS, with an authority that nobody knows.

#[cfg(feature = "postgres-tls")]
use super::*;

#[cfg(feature = "postgres-tls")]
fn openssl(folder: &Path, args: &str) {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(folder).args(args.split(' '));
    run(openssl);
}

/// The certificate of an authority, and those that it signed for a server and a client.
#[cfg(feature = "postgres-tls")]
fn certificates(folder: &Path) {
    openssl(folder, "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 2");
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1").unwrap();
    for (name, subject) in [("server", "localhost"), ("client", "test")] {
        openssl(
            folder,
            &format!("req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={subject}"),
        );
        openssl(
            folder,
            &format!(
                "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out {name}.pem \
                 -days 2 -extfile names"
            ),
        );
    }
}

#[cfg(feature = "postgres-tls")]
#[test]
#[ignore = "needs PostgreSQL and openssl"]
fn a_server_that_wants_tls() {
    let postgres = Postgres::start("postgres-tls");
    let (data, port) = (postgres.folder.join("data"), postgres.port);
    certificates(&data);
    let settings = "ssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server.key'\n\
                    ssl_ca_file = 'ca.pem'\n";
    fs::write(data.join("postgresql.auto.conf"), settings).unwrap();
    let rights = "hostssl all test 127.0.0.1/32 trust\n\
                  hostssl all certified 127.0.0.1/32 cert map=all\n";
    fs::write(data.join("pg_hba.conf"), rights).unwrap();
    fs::write(data.join("pg_ident.conf"), "all test certified\n").unwrap();
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
            let store = with.open(address).await.unwrap();
            let memory = store.memory(address.as_str()).unwrap();
            for _ in 0..3 {
                memory.add(Message::user("hi")).await.unwrap();
            }
            assert_eq!(all_texts(&memory).await, ["hi"; 3]);
        }

        // Who gives up cancels by TLS too.
        let store = options("tls").authority(authority.clone()).max_connections(1);
        let store = store.timeout(Duration::from_secs(5)).open(&plain).await.unwrap();
        let memory = store.memory("locked").unwrap();
        memory.add(Message::user("before")).await.unwrap();
        let locks = options("tls").authority(authority.clone()).open(&plain).await.unwrap();
        drop(locks);
        let error = memory.append(&mut vec![Message::user("x")], Some(7)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict { expected: 7, actual: 1 });

        let certified = plain.replace("test@", "certified@");
        let create = "CREATE ROLE certified LOGIN SUPERUSER";
        drop(create);
        let with = options("tls").authority(authority.clone());
        let error = with.clone().open(&certified).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
        let shown = format!("{:?}", with.clone().certificate(certificate.clone(), key.clone()));
        assert!(!shown.contains("45, 45"), "a key is not shown: {shown}");
    });
}
