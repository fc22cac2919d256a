//! Redis behind TLS, with an authority that nobody knows.

use memory_prompt::store::redis::driver::TlsCertificates;
use memory_prompt::{AsyncChatMemoryExt, ErrorKind, Message};

use super::*;
use crate::certificates::certificates;

async fn a_server_behind_tls() {
    let (folder, port) = (folder("redis-tls"), free_port());
    certificates(&folder);
    let authority = std::fs::read(folder.join("ca.pem")).unwrap();
    let place = folder.clone();
    let command = move || {
        let mut command = Command::new("redis-server");
        command.current_dir(&place).args(["--port", "0", "--tls-port", &port.to_string()]);
        command.args(["--save", "", "--bind", "127.0.0.1", "--tls-auth-clients", "no"]);
        command.args(["--tls-cert-file", "server.pem", "--tls-key-file", "server.key"]);
        command.args(["--tls-ca-cert-file", "ca.pem"]);
        command
    };
    let ready = move || TcpStream::connect(("127.0.0.1", port)).is_ok();
    let _server = Server::start(folder, command, ready);
    let address = format!("rediss://localhost:{port}");

    let error = options().open(&address).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("open: redis: no connection to localhost:{port}: ")),
        "{text}"
    );
    assert!(text.contains("certificate"), "{text}");

    let certificates = TlsCertificates { client_tls: None, root_cert: Some(authority) };
    let store = options().certificates(certificates).open(&address).await.unwrap();
    let memory = store.memory("a:b:c").unwrap();
    memory.add(Message::user("hi")).await.unwrap();
    assert_eq!(memory.all().await.unwrap().len(), 1);
}

crate::tests! { run:
    #[ignore = "needs redis-server and openssl"]
    a_server_behind_tls;
}
