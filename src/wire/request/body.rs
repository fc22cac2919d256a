//! The fields of a request, merged with those that the application adds.

use std::fmt::Display;

use serde_json::Value;

use super::Request;
use crate::message::Attributes;
use crate::wire::borrowed::{BorrowedValue, Object};

/// A request's body in the making. No name is written twice.
pub(super) struct Body<'a> {
    pub(super) request: &'a Request<'a>,
    fields: Object<'a>,
    extra: &'a Attributes,
    /// The names in `extra` that were merged into an object or a list of this crate's.
    joined: Vec<&'static str>,
}

pub(super) type Written<T = ()> = Result<T, String>;

impl<'a> Body<'a> {
    pub(super) fn new(request: &'a Request<'a>, extra: &'a Attributes) -> Self {
        Self { request, fields: Object::default(), extra, joined: Vec::new() }
    }

    pub(super) fn has_extra(&self, name: &str) -> bool {
        self.extra.contains_key(name)
    }

    /// Writes a field, unless its value is empty.
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

    /// Writes a field of an object, `{name: {inner: value}}`, merged with the application's object,
    /// unless the value is empty.
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

    /// Writes a list with the application's elements at its end, if this crate has elements for it.
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

    pub(super) fn end(self) -> Object<'a> {
        self.fields.kept(Some(self.extra), &self.joined)
    }
}

fn clash(name: impl Display) -> String {
    format!("extra: `{name}` is written by the request itself")
}
