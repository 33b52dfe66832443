//! Handshakes that give way while a device signs for them, or exchanges keys.
//!
//! rustls does that by synchronous calls from deep within a handshake. So the handshake runs on a separate stack: at
//! such a call it is set aside with all that it was about, and it goes on from there when the result has come. The
//! event loop never waits.

use std::cell::Cell;
use std::io;
use std::ptr::NonNull;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use rustls::{IoState, ServerConnection};

use super::operation::{Operation, OperationResult};

/// Enough for a handshake in a debug build several times over. Only what is touched takes memory.
const STACK_BYTES: usize = 256 * 1024;
/// How many stacks are kept for later.
const STACKS_MAX: usize = 256;

/// The value that resumes a coroutine: nothing at first, then the answer that it waits for.
type Input = Option<OperationResult>;
type Processed = (Box<ServerConnection>, Result<IoState, rustls::Error>);

thread_local! {
    /// The coroutine that this thread is in, by what suspends it. rustls passes nothing through to a signer that
    /// could tell whose handshake it signs for, but it signs on the thread, and on the stack, of that handshake.
    static RUNNING: Cell<Option<NonNull<Yielder<Input, Operation>>>> = const { Cell::new(None) };
}

/// Stacks that no handshake uses at the moment.
#[derive(Default)]
pub(super) struct Stacks {
    spare: Vec<DefaultStack>,
}

impl Stacks {
    fn take(&mut self) -> io::Result<DefaultStack> {
        self.spare.pop().map_or_else(|| DefaultStack::new(STACK_BYTES), Ok)
    }

    fn give(&mut self, stack: DefaultStack) {
        if self.spare.len() < STACKS_MAX {
            self.spare.push(stack);
        }
    }
}

/// A handshake that waits for an answer.
pub(super) struct Suspended {
    coroutine: Coroutine<Input, Operation, Processed, DefaultStack>,
}

impl std::fmt::Debug for Suspended {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Suspended").finish_non_exhaustive()
    }
}

/// How far a handshake came.
pub(super) enum Progress {
    /// It has processed what there was.
    Processed(Box<ServerConnection>, Result<IoState, rustls::Error>),
    /// It waits for the result of an operation.
    Waits(Suspended, Operation),
}

/// Processes what a connection has received, on a separate stack.
///
/// # Errors
///
/// When the memory for a stack cannot be allocated.
pub(super) fn process(mut connection: Box<ServerConnection>, stacks: &mut Stacks) -> io::Result<Progress> {
    let body = |yielder: &Yielder<Input, Operation>, _: Input| {
        RUNNING.set(Some(NonNull::from(yielder)));
        let result = connection.process_new_packets();
        RUNNING.set(None);
        (connection, result)
    };
    let coroutine = Coroutine::with_stack(stacks.take()?, body);
    Ok(Suspended { coroutine }.go_on(None, stacks))
}

impl Suspended {
    /// Goes on with what became of the operation.
    pub(super) fn resume(self, answer: OperationResult, stacks: &mut Stacks) -> Progress {
        self.go_on(Some(answer), stacks)
    }

    fn go_on(mut self, input: Input, stacks: &mut Stacks) -> Progress {
        match self.coroutine.resume(input) {
            CoroutineResult::Yield(operation) => Progress::Waits(self, operation),
            CoroutineResult::Return((connection, result)) => {
                stacks.give(self.coroutine.into_stack());
                Progress::Processed(connection, result)
            }
        }
    }
}

/// Has the event loop do an operation, and returns its answer; `None` outside of a coroutine, because only a coroutine
/// can be suspended.
pub(super) fn give_way(operation: Operation) -> Option<OperationResult> {
    let yielder = RUNNING.take()?;
    // SAFETY: the pointer was put there by the coroutine that this thread is in, which borrows the yielder for as long
    // as it runs, and which takes the pointer away when it ends. It was taken above before the coroutine is left, so
    // that no other coroutine and no code outside of one ever finds it.
    let answer = unsafe { yielder.as_ref() }.suspend(operation);
    RUNNING.set(Some(yielder));
    Some(
        answer.unwrap_or_else(|| {
            OperationResult::Done(Err(rustls::Error::General("no answer came".to_owned())))
        }),
    )
}
