//! The server's end of a network: Plumbline's own server, or that of the tool which drives the load.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use plumb_host::cpu::{CpuTime, process_cpu_time};
use plumb_path::{PathError, Place};

use crate::server::{Server, ServerOptions};
use crate::settings::LoadSettings;
use crate::tool::ToolServer;

/// The server at the server's end.
#[derive(Debug)]
pub(super) enum End {
    /// Plumbline's own server, whose threads are this process's.
    Own(Server),
    /// A tool's.
    Tool(ToolServer),
}

impl End {
    /// Starts it at an address, in a network namespace if one is given.
    ///
    /// # Errors
    /// When it is not there, or cannot listen.
    pub(super) fn start(
        load: &LoadSettings,
        address: IpAddr,
        netns: Option<PathBuf>,
        place: &Place,
    ) -> Result<Self, PathError> {
        if let Some(server) = ToolServer::start(load, address, netns.as_deref(), &place.scratch)? {
            return Ok(Self::Tool(server));
        }
        let options = ServerOptions { address: SocketAddr::from((address, 0)), netns };
        Ok(Self::Own(Server::start(&options)?))
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Self::Own(server) => server.address(),
            Self::Tool(server) => server.address(),
        }
    }

    /// The CPU time so far.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn cpu_time(&mut self) -> Result<CpuTime, PathError> {
        match self {
            Self::Own(_) => Ok(process_cpu_time(std::process::id())?),
            Self::Tool(server) => server.cpu_time(),
        }
    }

    /// Ends it.
    pub(super) fn stop(&mut self) {
        match self {
            Self::Own(server) => server.stop(),
            Self::Tool(server) => server.stop(),
        }
    }
}
