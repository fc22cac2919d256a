//! The address of a request.

use crate::error::{Error, Result};
use crate::provider::{Format, Server};

/// Returns the given address without spaces at its ends.
///
/// An address without `http://` is accepted only for Ollama, whose variable holds a host and a
/// port, often the one that the server itself listens on.
pub(super) fn checked(address: &str, format: Format) -> Result<String> {
    let address = address.trim();
    let is_whole = address.starts_with("http://") || address.starts_with("https://");
    let address = match format {
        Format::Ollama if !is_whole && !address.contains("://") => ollama_host(address),
        _ if is_whole => address.to_owned(),
        _ => return Err(invalid("an address that begins neither with https:// nor with http://")),
    };
    let parsed = address.parse::<http::Uri>().ok();
    match parsed.as_ref().and_then(http::Uri::authority) {
        None => Err(invalid("what is no address")),
        // A password would be shown wherever the address is.
        Some(authority) if authority.as_str().contains('@') => {
            Err(invalid("an address with a name and a password: they belong into a header"))
        }
        Some(_) => Ok(address),
    }
}

fn invalid(what: &str) -> Error {
    Error::invalid("transport", format!("base URL: {what}"))
}

fn ollama_host(host: &str) -> String {
    let (host, path) = host.split_at(host.find('/').unwrap_or(host.len()));
    let host = host.replacen("0.0.0.0", "127.0.0.1", 1);
    let host = if host.starts_with(':') { format!("127.0.0.1{host}") } else { host };
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    format!("http://{host}{}{path}", if has_port { "" } else { ":11434" })
}

/// Returns the address of a request, for the given base address.
///
/// Base addresses with or without `/v1`, with a slash at the end, or with the whole path all mean
/// the same.
pub(super) fn join(base: &str, server: &Server, path: &str, is_events: bool) -> String {
    let (base, query) = base.split_once('?').unwrap_or((base, ""));
    let base = base.trim_end_matches('/');
    let url = if base.ends_with(path) {
        base.to_owned()
    } else if server.is_versioned || ends_in_version(base) {
        format!("{base}{}{path}", missing(base, server.version))
    } else {
        format!("{base}{}{path}", server.version)
    };
    let events = if is_events { "alt=sse" } else { "" };
    let queries = [query, events].into_iter().filter(|query| !query.is_empty());
    let queries = queries.collect::<Vec<_>>().join("&");
    if queries.is_empty() { url } else { format!("{url}?{queries}") }
}

/// Returns the part of the version that an address lacks: all of it if it has no path, and `/v1` of
/// `/openai/v1` if its path is `/openai`. Any other path is a gateway's, and lacks nothing.
fn missing<'a>(base: &str, version: &'a str) -> &'a str {
    let host = base.split_once("://").map_or(base, |(_, rest)| rest);
    let path = host.find('/').map_or("", |at| &host[at..]);
    version.strip_prefix(path).filter(|rest| rest.starts_with('/')).unwrap_or_default()
}

/// Returns whether the last part of a path is `v1`, `v1beta` or another version.
fn ends_in_version(base: &str) -> bool {
    let last = base.rsplit('/').next().unwrap_or_default();
    last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
