//! Methods of options that set one field each.

/// Generates setters for options: `pub fn name(value: Type) => field = value;`.
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
