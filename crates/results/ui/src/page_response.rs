//! An answer before it becomes HTTP, and the headers of every answer.

/// The content security policy of a page. A browser may load styles, scripts and pictures from this server,
/// connect to it, and nothing else. Text of a run that slipped through the escaping could still run no
/// script.
pub const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The headers of every answer.
pub const HEADERS: [(&str, &str); 6] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    // With "no-referrer", a browser would send `Origin: null` with the forms of these pages.
    ("referrer-policy", "same-origin"),
    ("cache-control", "no-store"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageResponse {
    /// The HTTP status.
    pub status: u16,
    /// The content type.
    pub kind: &'static str,
    /// The content.
    pub body: String,
    /// The address to redirect to.
    pub location: Option<String>,
    /// A cookie to set.
    pub cookie: Option<String>,
}

impl PageResponse {
    /// A page.
    #[must_use]
    pub fn page(status: u16, html: String) -> Self {
        Self { status, kind: "text/html; charset=utf-8", body: html, location: None, cookie: None }
    }

    /// A text of any content type.
    #[must_use]
    pub fn asset(kind: &'static str, text: &str) -> Self {
        Self { status: 200, kind, body: text.to_owned(), location: None, cookie: None }
    }

    /// A redirect to another page, which the browser requests with GET.
    #[must_use]
    pub fn see(location: impl Into<String>) -> Self {
        Self { status: 303, location: Some(location.into()), ..Self::page(303, String::new()) }
    }
}
