//! The dispatch of calls to functions. The paths are the interface's service and method names.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use prost::Message;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use crate::controller::Controller;
use crate::driver::Driver;
use crate::fault::CallError;
use crate::messages::{Empty, Flag, ProbeResponse};
use crate::node::Node;

/// Answers one call.
pub(super) async fn answer(driver: Arc<Driver>, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    match path.strip_prefix("/csi.v1.").and_then(|path| path.split_once('/')) {
        Some(("Identity", method)) => identity(method, driver, request).await,
        Some(("Controller", method)) if driver.controller().is_some() => {
            controller(method, driver, request).await
        }
        Some(("Node", method)) if driver.node().is_some() => node(method, driver, request).await,
        _ => unknown(),
    }
}

async fn identity(method: &str, driver: Arc<Driver>, request: Request<Incoming>) -> Response<Body> {
    match method {
        "GetPluginInfo" => call(driver, request, |_, _: Empty| Ok(Driver::info())).await,
        "GetPluginCapabilities" => call(driver, request, |driver, _: Empty| Ok(driver.capabilities())).await,
        "Probe" => {
            let ready = ProbeResponse { ready: Some(Flag { value: true }) };
            call(driver, request, move |_, _: Empty| Ok(ready)).await
        }
        _ => unknown(),
    }
}

async fn controller(method: &str, driver: Arc<Driver>, request: Request<Incoming>) -> Response<Body> {
    match method {
        "ControllerGetCapabilities" => {
            call(driver, request, |_, _: Empty| Ok(Driver::controller_capabilities())).await
        }
        "CreateVolume" => controls(driver, request, Controller::create).await,
        "DeleteVolume" => controls(driver, request, Controller::delete).await,
        "ValidateVolumeCapabilities" => controls(driver, request, Controller::validate).await,
        "ListVolumes" => controls(driver, request, Controller::list).await,
        "GetCapacity" => controls(driver, request, Controller::capacity).await,
        "ControllerExpandVolume" => controls(driver, request, Controller::expand).await,
        "ControllerModifyVolume" => controls(driver, request, Controller::modify).await,
        _ => unknown(),
    }
}

async fn node(method: &str, driver: Arc<Driver>, request: Request<Incoming>) -> Response<Body> {
    match method {
        "NodeGetCapabilities" => call(driver, request, |_, _: Empty| Ok(Driver::node_capabilities())).await,
        "NodeGetInfo" => nodes(driver, request, |node, _: &Empty| Ok(node.info())).await,
        "NodeStageVolume" => nodes(driver, request, Node::stage).await,
        "NodeUnstageVolume" => nodes(driver, request, Node::unstage).await,
        "NodePublishVolume" => nodes(driver, request, Node::publish).await,
        "NodeUnpublishVolume" => nodes(driver, request, Node::unpublish).await,
        "NodeGetVolumeStats" => nodes(driver, request, Node::stats).await,
        "NodeExpandVolume" => nodes(driver, request, Node::expand).await,
        _ => unknown(),
    }
}

async fn controls<Q, A>(
    driver: Arc<Driver>,
    request: Request<Incoming>,
    work: fn(&Controller, &Q) -> Result<A, CallError>,
) -> Response<Body>
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
{
    call(driver, request, move |driver, asked| work(driver.controller().ok_or_else(no_service)?, &asked))
        .await
}

async fn nodes<Q, A>(
    driver: Arc<Driver>,
    request: Request<Incoming>,
    work: fn(&Node, &Q) -> Result<A, CallError>,
) -> Response<Body>
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
{
    call(driver, request, move |driver, asked| work(driver.node().ok_or_else(no_service)?, &asked)).await
}

fn no_service() -> CallError {
    CallError::Internal("this process does not have that service".to_owned())
}

/// Reads a request, handles it on a thread that may block, and writes the answer.
async fn call<Q, A, W>(driver: Arc<Driver>, request: Request<Incoming>, work: W) -> Response<Body>
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
    W: FnOnce(&Driver, Q) -> Result<A, CallError> + Send + 'static,
{
    let mut grpc = Grpc::new(ProstCodec::<A, Q>::default());
    grpc.unary(Unary { driver, work: Some(work), types: std::marker::PhantomData::<fn(Q) -> A> }, request)
        .await
}

struct Unary<W, T> {
    driver: Arc<Driver>,
    work: Option<W>,
    types: std::marker::PhantomData<T>,
}

impl<Q, A, W> UnaryService<Q> for Unary<W, fn(Q) -> A>
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
    W: FnOnce(&Driver, Q) -> Result<A, CallError> + Send + 'static,
{
    type Response = A;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<A>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        let (driver, work) = (Arc::clone(&self.driver), self.work.take());
        Box::pin(async move {
            let work = work.ok_or_else(|| Status::internal("it was called twice"))?;
            let done = tokio::task::spawn_blocking(move || work(&driver, request.into_inner())).await;
            let done = done.map_err(|error| Status::internal(format!("the call broke off: {error}")))?;
            done.map(tonic::Response::new).map_err(|fault| status(&fault))
        })
    }
}

fn status(fault: &CallError) -> Status {
    let code = match fault {
        CallError::Invalid(_) => Code::InvalidArgument,
        CallError::Missing(_) => Code::NotFound,
        CallError::Exists(_) => Code::AlreadyExists,
        CallError::Precondition(_) => Code::FailedPrecondition,
        CallError::Range(_) => Code::OutOfRange,
        CallError::Exhausted(_) => Code::ResourceExhausted,
        CallError::Busy(_) => Code::Aborted,
        CallError::Internal(_) => Code::Internal,
    };
    Status::new(code, fault.to_string())
}

fn unknown() -> Response<Body> {
    Status::unimplemented("this driver does not have that call").into_http()
}
