//! The fields of a request, beside those that the application adds.

use std::fmt;

use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use crate::message::Attributes;

/// A request's body in the making. No name is written twice.
pub(super) struct Body<'a, M> {
    map: M,
    extra: &'a Attributes,
    /// The names of `extra` that stand in an object or list of ours.
    joined: Vec<&'static str>,
}

impl<'a, M: SerializeMap> Body<'a, M> {
    pub(super) fn new(map: M, extra: &'a Attributes) -> Self {
        Self { map, extra, joined: Vec::new() }
    }

    /// Returns whether the application brings a field of this name.
    pub(super) fn has_extra(&self, name: &str) -> bool {
        self.extra.contains_key(name)
    }

    /// Writes a field.
    pub(super) fn field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), M::Error> {
        if self.has_extra(name) {
            return Err(clash::<M>(name));
        }
        self.map.serialize_entry(name, value)
    }

    /// Writes a field, if there is something to write.
    pub(super) fn optional<T: Serialize>(
        &mut self,
        name: &'static str,
        value: Option<T>,
    ) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.field(name, &value))
    }

    /// Writes a field of an object, `{name: {inner: value}}`, with the application's beside it, if
    /// there is something to write.
    pub(super) fn inner<T: Serialize>(
        &mut self,
        name: &'static str,
        inner: &'static str,
        value: Option<T>,
    ) -> Result<(), M::Error> {
        let Some(value) = value else { return Ok(()) };
        let beside = match self.extra.get(name) {
            None => None,
            Some(Value::Object(fields)) if !fields.contains_key(inner) => Some(fields),
            Some(_) => return Err(clash::<M>(format_args!("{name}.{inner}"))),
        };
        self.joined.push(name);
        self.map.serialize_entry(name, &Inner { name: inner, value, beside })
    }

    /// Writes a list, with the application's elements behind ours, if there are any of ours.
    pub(super) fn list<T: Serialize, I: ExactSizeIterator<Item = T> + Clone>(
        &mut self,
        name: &'static str,
        ours: I,
    ) -> Result<(), M::Error> {
        if ours.len() == 0 {
            return Ok(());
        }
        let more = match self.extra.get(name) {
            None => &[],
            Some(Value::Array(more)) => more.as_slice(),
            Some(_) => return Err(clash::<M>(name)),
        };
        self.joined.push(name);
        self.map.serialize_entry(name, &List { ours, more })
    }

    /// Writes the application's other fields, and ends the body.
    pub(super) fn end(mut self) -> Result<M::Ok, M::Error> {
        for (name, value) in self.extra {
            if !self.joined.contains(&name.as_str()) {
                self.map.serialize_entry(name, value)?;
            }
        }
        self.map.end()
    }
}

fn clash<M: SerializeMap>(name: impl fmt::Display) -> M::Error {
    M::Error::custom(format_args!("extra: `{name}` is written by the request itself"))
}

struct Inner<'a, T> {
    name: &'static str,
    value: T,
    beside: Option<&'a Attributes>,
}

impl<T: Serialize> Serialize for Inner<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.name, &self.value)?;
        for (name, value) in self.beside.into_iter().flatten() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

struct List<'a, I> {
    ours: I,
    more: &'a [Value],
}

impl<T: Serialize, I: Iterator<Item = T> + Clone> Serialize for List<'_, I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for element in self.ours.clone() {
            list.serialize_element(&element)?;
        }
        for element in self.more {
            list.serialize_element(element)?;
        }
        list.end()
    }
}
