//! Encrypted or plain connections, as the address and the options ask.

use deadpool_postgres::Manager;
use deadpool_postgres::tokio_postgres::config::SslMode;
use deadpool_postgres::tokio_postgres::{CancelToken, Config, NoTls};
#[cfg(feature = "postgres-tls")]
use tokio_postgres_rustls::MakeRustlsConnect;

use super::options::PostgresOptions;
#[cfg(not(feature = "postgres-tls"))]
use crate::error::Error;
use crate::error::Result;

#[derive(Clone)]
pub(super) enum Security {
    Plain,
    #[cfg(feature = "postgres-tls")]
    Tls(MakeRustlsConnect),
}

impl Security {
    /// Decides the security by the address and the options. If neither asks for encryption, nothing
    /// is encrypted: a server's certificate that no known authority signed would be refused.
    #[cfg(feature = "postgres-tls")]
    pub(super) fn of(mut config: Config, options: &PostgresOptions) -> Result<(Config, Self)> {
        let certificates = &options.certificates;
        let asked = config.get_ssl_mode() == SslMode::Require;
        if !asked && !certificates.are_given() {
            return Ok((config, Self::Plain));
        }
        config.ssl_mode(SslMode::Require);
        Ok((config, Self::Tls(MakeRustlsConnect::new(certificates.client()?))))
    }

    #[cfg(not(feature = "postgres-tls"))]
    pub(super) fn of(config: Config, _: &PostgresOptions) -> Result<(Config, Self)> {
        if config.get_ssl_mode() == SslMode::Require {
            let text = "postgres: the address asks for TLS, which needs the feature `postgres-tls`";
            return Err(Error::invalid("open", text));
        }
        Ok((config, Self::Plain))
    }

    pub(super) fn manager(&self, config: Config) -> Manager {
        match self {
            Self::Plain => Manager::new(config, NoTls),
            #[cfg(feature = "postgres-tls")]
            Self::Tls(tls) => Manager::new(config, tls.clone()),
        }
    }

    /// Asks the server to cancel the current request of a connection. The server does not report
    /// whether it did.
    pub(super) async fn cancel(&self, token: &CancelToken) {
        let _ = match self {
            Self::Plain => token.cancel_query(NoTls).await,
            #[cfg(feature = "postgres-tls")]
            Self::Tls(tls) => token.cancel_query(tls.clone()).await,
        };
    }

    /// Adds advice for a server that wants encryption, if the connection is plain.
    pub(super) fn advise(&self, text: &str) -> String {
        match self {
            #[cfg(feature = "postgres-tls")]
            Self::Tls(_) => text.to_owned(),
            Self::Plain if cfg!(feature = "postgres-tls") => {
                format!("{text}; if it wants TLS: write `sslmode=require` in the address")
            }
            Self::Plain => format!(
                "{text}; if it wants TLS: switch on the feature `postgres-tls`, and write \
                 `sslmode=require` in the address"
            ),
        }
    }
}
