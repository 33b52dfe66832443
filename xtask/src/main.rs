//! House chores as a program: `cargo xtask tidy`.

fn main() {}
