//! A limiter that several threads and connections share.
//!
//! It neither sleeps nor starts threads: it says when the next operation may begin, and the thread that serves connections asks
//! again then. An operation is answered at once or waits under a name `W` that its connection chose.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::account::{Account, Binding};
use super::floor::{Floor, Meter};
use super::limits::Limits;
use super::sync::{AtomicBool, Mutex, MutexGuard};
use super::turns::{Flow, Turns};
use super::virtual_schedule::{VirtualSchedule, ns};

/// The limiter's answer to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It may begin.
    Begin,
    /// It waits; [`Limiter::take_due`] will name it.
    Wait,
}

/// A limiter; see the module.
#[derive(Debug)]
pub struct Limiter<W> {
    /// Without a limit nobody takes the lock.
    is_limited: AtomicBool,
    inner: Mutex<Inner<W>>,
    floor: Meter,
}

#[derive(Debug)]
struct Inner<W> {
    limits: Limits,
    schedule: VirtualSchedule,
    turns: Turns<W>,
    account: Account,
    /// Up to when the time of those who wait is in the account.
    accounted_ns: u64,
    /// Moved to another limiter; nobody may wait here any more.
    is_retired: bool,
}

impl<W: Copy + Ord> Limiter<W> {
    /// A limiter that has saved up nothing at `now_ns`.
    #[must_use]
    pub fn new(limits: Limits, now_ns: u64) -> Self {
        let inner = Inner {
            limits,
            schedule: VirtualSchedule::new(&limits, now_ns),
            turns: Turns::new(),
            account: Account::default(),
            accounted_ns: now_ns,
            is_retired: false,
        };
        let is_limited = AtomicBool::new(limits.is_limited());
        Self { is_limited, inner: Mutex::new(inner), floor: Meter::default() }
    }

    /// Whether anything is limited; callers may skip the limiter where it is not.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Acquire)
    }

    /// Asks for an operation on `bytes` bytes that arrived at `arrival_ns`. A waiter may have one operation waiting.
    pub fn ask(&self, waiter: W, flow: &mut Flow, bytes: u64, arrival_ns: u64, now_ns: u64) -> Admission {
        if !self.is_limited() {
            return Admission::Begin;
        }
        let inner = &mut *self.lock();
        if inner.is_retired || !inner.limits.is_limited() {
            return Admission::Begin;
        }
        let cost = inner.limits.cost(bytes);
        let time = inner.schedule.time(cost);
        let start = inner.turns.stamp(flow, time);
        if inner.turns.peek().is_none() {
            inner.accounted_ns = inner.accounted_ns.max(arrival_ns.min(now_ns));
        }
        inner.turns.push(start, waiter, cost, arrival_ns);
        // Operations that are due before it get their turn by `take_due`, so only the first may begin here.
        let is_first = inner.turns.peek().is_some_and(|first| first.waiter == waiter);
        if is_first && inner.begin_first(now_ns).is_some() {
            return Admission::Begin;
        }
        inner.account.delayed += 1;
        Admission::Wait
    }

    /// Adds everyone who may begin now to `begun`, and returns when to ask again; `None` when nobody waits.
    pub fn take_due(&self, now_ns: u64, begun: &mut Vec<W>) -> Option<u64> {
        let inner = &mut *self.lock();
        while let Some(waiter) = inner.begin_first(now_ns) {
            begun.push(waiter);
        }
        inner.next_due(now_ns).map(|(due_ns, _)| due_ns)
    }

    /// Takes a waiter out whose connection has gone.
    pub fn forget(&self, waiter: W) {
        self.lock().turns.remove(waiter);
    }

    /// Goes on under other limits, at once and without a burst. Adds to `begun` those that may begin; the others' times
    /// change, so that everyone who waits for one has to ask again.
    pub fn change(&self, limits: Limits, now_ns: u64, begun: &mut Vec<W>) {
        let inner = &mut *self.lock();
        if inner.limits == limits || inner.is_retired {
            return;
        }
        inner.account_until(now_ns);
        inner.limits = limits;
        inner.schedule.change(&limits, now_ns);
        self.is_limited.store(limits.is_limited(), Ordering::Release);
        if !limits.is_limited() {
            begun.extend(inner.turns.drain());
        }
    }

    /// Ends the limiter's work, because another takes its place. Adds to `again` everyone who waits, to ask there.
    pub fn retire(&self, now_ns: u64, again: &mut Vec<W>) {
        let inner = &mut *self.lock();
        inner.account_until(now_ns);
        inner.is_retired = true;
        again.extend(inner.turns.drain());
    }

    /// The floor of its operations.
    #[must_use]
    pub fn floor(&self) -> Floor {
        self.floor.floor()
    }

    /// Changes what they are to get at least.
    pub fn change_floor(&self, floor: Floor, now_ns: u64) {
        self.floor.change(floor, now_ns);
    }

    /// Whether an operation that begins is within what is to be got at least, and counts it there if so.
    pub fn take_owed(&self, bytes: u64, now_ns: u64) -> bool {
        self.floor.take(bytes, now_ns)
    }

    /// Whether operations got less than they are to get at least.
    pub fn owes(&self, now_ns: u64) -> bool {
        self.floor.owes(now_ns)
    }

    /// The limits in effect.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.lock().limits
    }

    /// The account so far, up to `now_ns`.
    #[must_use]
    pub fn account(&self, now_ns: u64) -> Account {
        let inner = &mut *self.lock();
        inner.account_until(now_ns);
        inner.account
    }

    fn lock(&self) -> MutexGuard<'_, Inner<W>> {
        // Nothing in here panics halfway through a change, so what a panicking thread left is whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Copy + Ord> Inner<W> {
    /// Lets the first begin once its time has come.
    fn begin_first(&mut self, now_ns: u64) -> Option<W> {
        let first = self.turns.peek()?;
        let due = self.schedule.due(first.cost(), first.arrival_ns, now_ns);
        let due_ns = ns(due.at);
        if due_ns > now_ns {
            return None;
        }
        self.add_bound(due.binding, due_ns);
        self.schedule.charge(first.cost(), due);
        self.account.operations += first.operations;
        self.account.bytes += first.bytes;
        self.turns.pop();
        Some(first.waiter)
    }

    fn next_due(&self, now_ns: u64) -> Option<(u64, Binding)> {
        let first = self.turns.peek()?;
        let due = self.schedule.due(first.cost(), first.arrival_ns, now_ns);
        Some((ns(due.at), due.binding))
    }

    /// Charges the time up to `until_ns`, or until the first may begin if that is earlier, to what it waits for.
    fn account_until(&mut self, until_ns: u64) {
        if let Some((due_ns, binding)) = self.next_due(until_ns) {
            self.add_bound(binding, due_ns.min(until_ns));
        }
    }

    fn add_bound(&mut self, binding: Binding, until_ns: u64) {
        self.account.add_bound(binding, until_ns.saturating_sub(self.accounted_ns));
        self.accounted_ns = self.accounted_ns.max(until_ns);
    }
}
