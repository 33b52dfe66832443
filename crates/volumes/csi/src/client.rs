//! A blocking client of a driver, for tests: one connection, one call at a time.

use std::path::Path;

use http::uri::PathAndQuery;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::{BoxFuture, Service, http as tonic_http};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

/// The status of a failed call.
pub type Refusal = (Code, String);

/// A blocking client of a driver.
#[derive(Debug)]
pub struct Client {
    runtime: Runtime,
    connection: Connection,
}

impl Client {
    /// Connects to a driver's socket.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn connect(socket: &Path) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let connection = runtime.block_on(async {
            let stream = TokioIo::new(UnixStream::connect(socket).await?);
            let made = http2::handshake(TokioExecutor::new(), stream).await;
            let (sender, driving) = made.map_err(std::io::Error::other)?;
            tokio::spawn(driving);
            Ok::<_, std::io::Error>(Connection(sender))
        })?;
        Ok(Self { runtime, connection })
    }

    /// Makes one call, such as `Node/NodeGetInfo`.
    ///
    /// # Errors
    /// The code and the message that the driver answers with.
    pub fn call<Q, A>(&self, method: &str, request: Q) -> Result<A, Refusal>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let path = PathAndQuery::try_from(format!("/csi.v1.{method}"))
            .map_err(|error| (Code::InvalidArgument, error.to_string()))?;
        let mut grpc =
            Grpc::with_origin(self.connection.clone(), tonic_http::Uri::from_static("http://localhost"));
        let answer = self.runtime.block_on(async {
            grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            grpc.unary(tonic::Request::new(request), path, ProstCodec::<Q, A>::default()).await
        });
        let told = |status: Status| (status.code(), status.message().to_owned());
        answer.map(tonic::Response::into_inner).map_err(told)
    }
}

#[derive(Debug, Clone)]
struct Connection(http2::SendRequest<Body>);

impl Service<http::Request<Body>> for Connection {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
