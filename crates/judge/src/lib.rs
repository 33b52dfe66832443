//! From a plan and its slots to verdicts.
