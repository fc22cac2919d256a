//! The ways to a server: TLS, and a proxy.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::stub::{Fault, Step};

/// Copies until one side ends.
fn pump(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// A proxy that lets everything through to the stub, and counts what it was asked for.
fn proxy(stub: &Stub, asked: &Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (target, asked) = (stub.url.trim_start_matches("http://").to_owned(), Arc::clone(asked));
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let mut head = String::new();
            let mut reader = BufReader::new(client.try_clone().unwrap());
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
            asked.fetch_add(1, Ordering::Relaxed);
            let mut server = TcpStream::connect(&target).unwrap();
            if head.starts_with("CONNECT nowhere.invalid:80 ") {
                assert!(!head.contains("sk-stub"), "the key is none of its business");
                (&client).write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            } else {
                // reqwest tells a proxy the whole address of a plain request in place of that.
                assert_ne!(LOGS, "ureq", "{head}");
                let (host, path) = ("POST http://nowhere.invalid", "POST ");
                assert!(head.starts_with(host), "{head}");
                server.write_all(head.replacen(host, path, 1).as_bytes()).unwrap();
                server.write_all(reader.buffer()).unwrap();
            }
            let (back, other) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || pump(client, server));
            thread::spawn(move || pump(back, other));
        }
    });
    address
}

#[test]
fn a_proxy_is_asked_for_the_server() {
    let stub = Stub::start();
    let asked = Arc::new(AtomicUsize::new(0));
    let model = to(&stub, Provider::OpenAi).base_url("http://nowhere.invalid").unwrap();
    let model = model.proxy(&proxy(&stub, &asked)).unwrap();
    stub.then([Step::says("Hello.").but(Fault::OddChunks)]);
    assert_eq!(chat(model).say("hi").unwrap().text(), "Hello.");
    assert_eq!((asked.load(Ordering::Relaxed), stub.asked().len()), (1, 1));
}

mod tls {
    use std::io::{self, Read};
    use std::process::Command;
    use std::time::Duration;

    use memory_prompt::ErrorKind;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::*;
    use crate::folder::Folder;

    /// A certificate for 127.0.0.1 that signed itself, and its key.
    fn certificate() -> (Vec<u8>, Vec<u8>) {
        let folder = Folder::new();
        let (key, pem) = (folder.file("key.pem"), folder.file("cert.pem"));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
            .args(["-subj", "/CN=stub", "-addext", "subjectAltName=IP:127.0.0.1"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
            .arg(&key)
            .arg("-out")
            .arg(&pem)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        (std::fs::read(&pem).unwrap(), std::fs::read(&key).unwrap())
    }

    /// Hands on what has come; false once no more will.
    fn carry(from: &mut impl Read, to: &mut impl Write) -> bool {
        let mut buffer = [0; 4096];
        match from.read(&mut buffer) {
            Ok(0) => return false,
            Ok(read) => to.write_all(&buffer[..read]).unwrap(),
            Err(error) => {
                return matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            }
        }
        true
    }

    /// A server that takes TLS off and hands on what is in it to the stub.
    fn terminator(stub: &Stub, pem: &[u8], key: &[u8], count: &Arc<AtomicUsize>) -> String {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(pem).unwrap()],
                PrivateKeyDer::from_pem_slice(key).unwrap(),
            )
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        let target = stub.url.trim_start_matches("http://").to_owned();
        let count = Arc::clone(count);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                let (config, target) = (Arc::clone(&config), target.clone());
                thread::spawn(move || {
                    let mut server = TcpStream::connect(target).unwrap();
                    client.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
                    server.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
                    let connection = ServerConnection::new(config).unwrap();
                    let mut client = StreamOwned::new(connection, client);
                    while carry(&mut client, &mut server) && carry(&mut server, &mut client) {}
                });
            }
        });
        address
    }

    #[test]
    fn a_certificate_counts_where_it_is_trusted_alone() {
        let (pem, key) = certificate();
        let stub = Stub::start();
        let count = Arc::new(AtomicUsize::new(0));
        let address = terminator(&stub, &pem, &key, &count);
        let model = to(&stub, Provider::Anthropic).base_url(&address).unwrap();
        let error = chat(model.clone()).say("hi").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unanswered { sent: false });
        assert_eq!(error.to_string(), "ask: no secure connection came about");
        assert!(std::error::Error::source(&error).is_some(), "it says what about the certificate");
        assert_eq!(count.load(Ordering::Relaxed), 1, "in vain it is not tried again");

        stub.then([Step::says("Hello.")]);
        let model = model.trust(&pem).unwrap();
        assert_eq!(chat(model).say("hi").unwrap().text(), "Hello.");
        let error = to(&stub, Provider::Anthropic).trust(&key).unwrap_err();
        assert_eq!(error.to_string(), "transport: trust: no certificate");
    }
}
