//! The number of the server's process behind a connection, as the connection was told when it
//! began.
//!
//! The driver keeps it for itself, and for cancellations: so one is written to nobody, and read
//! here.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use deadpool_postgres::Client;
use deadpool_postgres::tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Returns the number that this connection was told.
pub(super) async fn number(client: &Client) -> Option<i32> {
    let mut nobody = Nobody(Vec::new());
    client.cancel_token().cancel_query_raw(&mut nobody, Handshake).await.ok()?;
    // A length, a code, the number and a secret, of four bytes each.
    let number = nobody.0.last_chunk::<8>()?.first_chunk::<4>()?;
    Some(i32::from_be_bytes(*number))
}

/// A connection to nobody, which takes everything down and agrees to everything.
struct Nobody(Vec<u8>);

impl AsyncWrite for Nobody {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Nobody {
    /// Answers "S", which says that TLS may begin.
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        answer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        answer.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

/// A handshake that nobody has to wait for.
struct Handshake;

impl<'a> TlsConnect<&'a mut Nobody> for Handshake {
    type Stream = &'a mut Nobody;
    type Error = Infallible;
    type Future = Ready<Result<&'a mut Nobody, Infallible>>;

    fn connect(self, nobody: &'a mut Nobody) -> Self::Future {
        ready(Ok(nobody))
    }
}

impl TlsStream for &mut Nobody {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
