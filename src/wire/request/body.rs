//! The fields of a request, beside those that the application adds.

use std::fmt::Display;

use serde_json::Value;

use crate::message::Attributes;
use crate::wire::borrowed::{BorrowedValue, Object};

/// A request's body in the making. No name is written twice.
pub(super) struct Body<'a> {
    fields: Object<'a>,
    extra: &'a Attributes,
    /// The names of `extra` that stand in an object or list of ours.
    joined: Vec<&'static str>,
}

/// The reason why a request can't be written.
pub(super) type Written<T = ()> = Result<T, String>;

impl<'a> Body<'a> {
    pub(super) fn new(extra: &'a Attributes) -> Self {
        Self { fields: Object::default(), extra, joined: Vec::new() }
    }

    /// Returns whether the application brings a field of this name.
    pub(super) fn has_extra(&self, name: &str) -> bool {
        self.extra.contains_key(name)
    }

    /// Writes a field, if there is something to write.
    pub(super) fn field(
        &mut self,
        name: &'static str,
        value: impl Into<BorrowedValue<'a>>,
    ) -> Written {
        match value.into() {
            BorrowedValue::Nothing => Ok(()),
            _ if self.has_extra(name) => Err(clash(name)),
            value => {
                self.fields.put(name, value);
                Ok(())
            }
        }
    }

    /// Writes a field of an object, `{name: {inner: value}}`, with the application's beside it, if
    /// there is something to write.
    pub(super) fn inner(
        &mut self,
        name: &'static str,
        inner: &'static str,
        value: impl Into<BorrowedValue<'a>>,
    ) -> Written {
        let value = value.into();
        if matches!(value, BorrowedValue::Nothing) {
            return Ok(());
        }
        let beside = match self.extra.get(name) {
            None => None,
            Some(Value::Object(fields)) if !fields.contains_key(inner) => Some(fields),
            Some(_) => return Err(clash(format_args!("{name}.{inner}"))),
        };
        self.joined.push(name);
        self.fields.put(name, Object::of([(inner, value)]).kept(beside, &[]));
        Ok(())
    }

    /// Writes a list, with the application's elements behind ours, if there are any of ours.
    pub(super) fn list(&mut self, name: &'static str, mut ours: Vec<BorrowedValue<'a>>) -> Written {
        if ours.is_empty() {
            return Ok(());
        }
        match self.extra.get(name) {
            None => {}
            Some(Value::Array(more)) => ours.extend(more.iter().map(BorrowedValue::Kept)),
            Some(_) => return Err(clash(name)),
        }
        self.joined.push(name);
        self.fields.put(name, ours);
        Ok(())
    }

    /// Returns the body, with the application's other fields.
    pub(super) fn end(self) -> Object<'a> {
        self.fields.kept(Some(self.extra), &self.joined)
    }
}

fn clash(name: impl Display) -> String {
    format!("extra: `{name}` is written by the request itself")
}
