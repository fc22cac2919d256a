//! The methods of options that set one thing each.

/// Writes the methods of these options, each of which sets a field: `pub fn name(value: Type) =>
/// field = value;`.
macro_rules! setters {
    (
        $options:ident:
        $(
            $(#[$about:meta])*
            pub fn $name:ident($($argument:ident: $type:ty),+) => $($field:tt).+ = $value:expr;
        )+
    ) => {
        impl $options {$(
            $(#[$about])*
            #[must_use]
            pub fn $name(mut self, $($argument: $type),+) -> Self {
                self.$($field).+ = $value;
                self
            }
        )+}
    };
}

pub(super) use setters;
