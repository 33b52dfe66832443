//! The engine that does nothing, at once: what is measured with it is the load's own cost.

use super::super::error::Error;
use super::interface::{Completion, Engine, Request};

#[derive(Debug)]
pub struct Null {
    queued: Vec<Completion>,
}

impl Null {
    pub fn new(depth: u32) -> Self {
        Self { queued: Vec::with_capacity(depth as usize) }
    }
}

impl Engine for Null {
    fn queue(&mut self, request: Request) {
        self.queued.push(Completion { tag: request.tag, result: request.length as i32 });
    }

    fn submit(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn wait(&mut self, timeout_ns: Option<u64>, completions: &mut Vec<Completion>) -> Result<(), Error> {
        if let (true, Some(timeout_ns)) = (self.queued.is_empty(), timeout_ns) {
            plumb_host::time::sleep(std::time::Duration::from_nanos(timeout_ns));
        }
        completions.append(&mut self.queued);
        Ok(())
    }
}
