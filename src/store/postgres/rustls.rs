//! Connections with TLS, by rustls.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use deadpool_postgres::tokio_postgres::Socket;
use deadpool_postgres::tokio_postgres::tls::{
    ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

use crate::error::{Error, Result};

/// Certificates in PEM: of the authority that signs the server's, and the client's own with its
/// key.
#[derive(Clone, Default)]
pub(super) struct Certificates {
    pub(super) authority: Option<Vec<u8>>,
    pub(super) own: Option<(Vec<u8>, Vec<u8>)>,
}

impl Certificates {
    pub(super) fn are_given(&self) -> bool {
        self.authority.is_some() || self.own.is_some()
    }

    /// Returns the authorities that are trusted.
    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let Some(authority) = &self.authority else {
            // A certificate of the system that can't be read is passed over; where none is left, no
            // server is trusted.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            return Ok(roots);
        };
        for certificate in read(authority)? {
            roots.add(certificate).map_err(refuse)?;
        }
        if roots.is_empty() {
            let text = "postgres: the authority's file holds no certificate";
            return Err(Error::invalid("open", text));
        }
        Ok(roots)
    }
}

/// A key is not shown.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

fn read(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem).collect::<std::result::Result<_, _>>().map_err(refuse)
}

fn refuse(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let text = format!("postgres: the certificates can't be used: {error}");
    Error::invalid("open", text).with_source(error)
}

/// A maker of encrypted connections.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    pub(super) fn new(certificates: &Certificates) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(refuse)?
            .with_root_certificates(certificates.roots()?);
        let mut config = match &certificates.own {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key).map_err(refuse)?;
                config.with_client_auth_cert(read(certificate)?, key).map_err(refuse)?
            }
        };
        // `sslnegotiation=direct` asks for this.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Stream;
    type TlsConnect = Connect;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> std::result::Result<Connect, Self::Error> {
        let name = ServerName::try_from(host)?.to_owned();
        Ok(Connect { connector: TlsConnector::from(Arc::clone(&self.0)), name })
    }
}

/// A handshake with a server of this name.
pub(super) struct Connect {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for Connect {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            self.connector.connect(self.name, socket).await.map(|stream| Stream(Box::new(stream)))
        })
    }
}

/// An encrypted connection.
pub(super) struct Stream(Box<client::TlsStream<Socket>>);

impl TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
