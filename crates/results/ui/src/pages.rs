//! The pages, each a function from the site and a request to an answer.

pub mod assets;
pub mod compare;
pub mod history;
pub mod hosts;
pub mod layout;
pub mod live;
pub mod metrics;
pub mod run;
pub mod runs;
pub mod series;
pub mod start;
pub mod stop;
