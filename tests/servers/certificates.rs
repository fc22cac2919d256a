//! Certificates of the tests' own.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Writes the certificate of an authority, and those that it signed for a server and a client.
pub(crate) fn certificates(folder: &Path) {
    let openssl = |args: String| {
        let mut openssl = Command::new("openssl");
        let output = openssl.current_dir(folder).args(args.split(' ')).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let new = "req -newkey rsa:2048 -nodes";
    openssl(format!("{new} -x509 -keyout ca.key -out ca.pem -subj /CN=ca -days 2"));
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1").unwrap();
    for (name, subject) in [("server", "localhost"), ("client", "client")] {
        openssl(format!("{new} -keyout {name}.key -out {name}.csr -subj /CN={subject}"));
        let signed = "x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names";
        openssl(format!("{signed} -in {name}.csr -out {name}.pem"));
    }
}
