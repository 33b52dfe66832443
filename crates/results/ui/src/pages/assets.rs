//! The files that pages load: two stylesheets, a script and a picture, compiled in.

use crate::asked::Asked;
use crate::fault::RequestError;
use crate::page_response::PageResponse;
use crate::site::Site;

const CSS: &str = "text/css; charset=utf-8";

/// A file by its address.
///
/// # Errors
/// When no such file exists.
pub fn asset(_: &Site, asked: &Asked) -> Result<PageResponse, RequestError> {
    Ok(match asked.path.as_str() {
        "/assets/report.css" => PageResponse::asset(CSS, plumb_report::html_style()),
        "/assets/page.css" => PageResponse::asset(CSS, include_str!("../assets/page.css")),
        "/assets/page.js" => {
            PageResponse::asset("text/javascript; charset=utf-8", include_str!("../assets/page.js"))
        }
        "/assets/icon.svg" => PageResponse::asset("image/svg+xml", include_str!("../assets/icon.svg")),
        _ => return Err(RequestError::missing("There is no such file.")),
    })
}
