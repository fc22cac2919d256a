//! Errors for a value of the wrong kind: they name the kind, and never quote the value.
//!
//! serde's own errors quote the value, `invalid type: string "my password"`, in full. Errors are
//! logged and sent to places where no conversation belongs.

/// Visits of a [`Visitor`](serde::de::Visitor) that are all refused: what it expects, which ends in
/// "must be …", and what was there instead.
macro_rules! refuse {
    ($($kind:ident)*) => { $($crate::message::refuse!(@$kind);)* };
    (@bool) => { $crate::message::refuse!(@@visit_bool(bool) "true or false"); };
    (@number) => {
        $crate::message::refuse!(@@visit_u64(u64) "a number");
        $crate::message::refuse!(@odd_number);
    };
    (@odd_number) => {
        $crate::message::refuse!(@@visit_i64(i64) "a number");
        $crate::message::refuse!(@@visit_i128(i128) "a number");
        $crate::message::refuse!(@@visit_u128(u128) "a number");
        $crate::message::refuse!(@@visit_f64(f64) "a number");
    };
    (@text) => { $crate::message::refuse!(@@visit_str(&str) "a text"); };
    (@bytes) => { $crate::message::refuse!(@@visit_bytes(&[u8]) "bytes"); };
    (@null) => {
        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Err($crate::message::wrong_kind(&self, "null"))
        }
        fn visit_none<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Err($crate::message::wrong_kind(&self, "null"))
        }
    };
    (@list) => {
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
            Err($crate::message::wrong_kind(&self, "a list"))
        }
    };
    (@object) => {
        fn visit_map<A: serde::de::MapAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
            Err($crate::message::wrong_kind(&self, "an object"))
        }
    };
    (@@$visit:ident($type:ty) $kind:literal) => {
        fn $visit<E: serde::de::Error>(self, _: $type) -> Result<Self::Value, E> {
            Err($crate::message::wrong_kind(&self, $kind))
        }
    };
}
pub(crate) use refuse;

pub(crate) fn wrong_kind<E: serde::de::Error>(expected: &dyn serde::de::Expected, kind: &str) -> E {
    E::custom(format_args!("{expected}, and is {kind}"))
}
