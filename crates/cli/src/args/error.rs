//! Why the value of an argument is refused.

use plumb_model::name::VARIANT_FORM;
use plumb_model::quantity::QuantityError;

/// Why the value of an argument is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ArgumentError {
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    #[error("write a name and its values, such as `n=1,2,4`")]
    NoValues,
    #[error("the value `{_0}` appears twice")]
    Twice(String),
    #[error("write a name, `=` and a value, such as `x-scope-orgid=lab`")]
    NoHeader,
    #[error("`{_0}` is not the name of a header; use letters, digits and `-`")]
    HeaderName(String),
    #[error("the value of the header `{_0}` has a control character")]
    HeaderValue(String),
    /// A header in the environment. Its text may be a secret.
    #[error("a header has no `=` between its name and its value")]
    NoHeaderValue,
    #[error("the budget must be at least 1 s")]
    Budget,
    #[error("the margin must be above 0% and below 100%")]
    Margin,
    #[error("a label is a name and a value of at most 1,000 characters, such as `ci=true`")]
    Label,
    #[error("write a name, `=` and files, such as `before=before/*.json`")]
    NoFiles,
    #[error("`{name}` {fault}; {VARIANT_FORM}")]
    Variant { name: String, fault: String },
    #[error("no file follows `{_0}=`")]
    NoFile(String),
    #[error("`{_0}` has no colon; write `Name: value`")]
    NoColon(String),
    #[error("`{_0}` is not a Unix socket, such as `unix:///csi/csi.sock`")]
    NotSocket(String),
}
