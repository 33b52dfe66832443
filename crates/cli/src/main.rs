//! The `plumb` command.

fn main() {}
