//! Whose turn it is: start-time fair queueing over the connections that wait.
//!
//! Each connection has at most one operation in the queue, its oldest, and gets time of the limiter in equal shares
//! whatever its depth and block size (P. Goyal, H. M. Vin, H. Cheng, "Start-time Fair Queuing", 1996).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::limits::Cost;
use super::virtual_schedule::Fixed;

/// The limiter's memory of a connection; kept by the connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flow {
    /// Virtual time at which its last operation is through.
    finish: Fixed,
}

/// An operation that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting<W> {
    start: Fixed,
    /// Breaks ties in the order of arrival.
    number: u64,
    pub arrival_ns: u64,
    pub operations: u64,
    pub bytes: u64,
    pub waiter: W,
}

impl<W> Waiting<W> {
    pub(super) fn cost(&self) -> Cost {
        Cost { operations: self.operations, bytes: self.bytes }
    }
}

/// The queue.
#[derive(Debug)]
pub(super) struct Turns<W> {
    heap: BinaryHeap<Reverse<Waiting<W>>>,
    virtual_time: Fixed,
    number: u64,
}

impl<W: Copy + Ord> Turns<W> {
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new(), virtual_time: 0, number: 0 }
    }

    /// Notes what a flow uses, and returns when that starts in virtual time.
    pub(super) fn stamp(&mut self, flow: &mut Flow, time: Fixed) -> Fixed {
        let start = self.virtual_time.max(flow.finish);
        flow.finish = start.saturating_add(time);
        start
    }

    pub(super) fn push(&mut self, start: Fixed, waiter: W, cost: Cost, arrival_ns: u64) {
        self.number += 1;
        let Cost { operations, bytes } = cost;
        self.heap.push(Reverse(Waiting {
            start,
            number: self.number,
            arrival_ns,
            operations,
            bytes,
            waiter,
        }));
    }

    /// The connection that is next.
    pub(super) fn peek(&self) -> Option<Waiting<W>> {
        self.heap.peek().map(|Reverse(first)| *first)
    }

    pub(super) fn pop(&mut self) {
        if let Some(Reverse(first)) = self.heap.pop() {
            self.virtual_time = first.start;
        }
    }

    pub(super) fn remove(&mut self, waiter: W) {
        self.heap.retain(|Reverse(waiting)| waiting.waiter != waiter);
    }

    /// Takes everyone out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = W> {
        self.heap.drain().map(|Reverse(waiting)| waiting.waiter)
    }
}
