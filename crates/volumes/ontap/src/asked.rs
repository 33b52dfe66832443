//! A client's request, and the data to answer it from.

use std::sync::{Arc, PoisonError, RwLock};

use plumb_volumes::Report;
use plumb_volumes::state::State;

use crate::query::Query;

/// The last report of a server of the same volumes; empty where none serves.
pub type ServedReport = Arc<RwLock<Option<Report>>>;

/// How a request may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Read.
    Get,
    /// Make.
    Post,
    /// Change.
    Patch,
    /// Delete.
    Delete,
}

/// A request that has come whole.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// How it asks; `None` for methods that are never allowed.
    pub method: Option<Method>,
    /// The path, as it came.
    pub path: &'a str,
    /// The text behind the question mark.
    pub query: &'a str,
    /// The body.
    pub body: &'a [u8],
    /// Whether links are wanted (`application/hal+json`, and when nothing is said).
    pub with_links: bool,
}

/// A request on its way through the resources.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub state: &'a State,
    pub served: &'a ServedReport,
    pub request: &'a Request<'a>,
    pub query: &'a Query,
}

impl Asked<'_> {
    /// The volumes being served.
    pub(crate) fn report(&self) -> Option<Report> {
        self.served.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
