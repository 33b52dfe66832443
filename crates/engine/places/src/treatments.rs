//! Treatments of this host, for a run on it or for the runner behind a keeper.

use plumb_tunings::{SettingValues, Tuner};
use tracing::info;

use crate::error::HostError;
use crate::host_tunings;
use crate::wire::{KeeperReply, OwnTreatment, Treat};

/// The treatments of this host.
#[derive(Default)]
pub(crate) struct Treatments {
    tuner: Option<Tuner>,
    /// The treatment in effect for the current slot, and the settings before it.
    slot: Option<(OwnTreatment, SettingValues)>,
    /// The settings at the opening and the close of the window.
    seen: Vec<SettingValues>,
}

impl Treatments {
    /// Reads the settings as part of a look at the host.
    pub(crate) fn look(&mut self) {
        self.seen.extend(self.tuner.as_ref().map(Tuner::look));
    }

    /// Carries out a request.
    pub(crate) fn answer(&mut self, ask: Treat) -> Result<KeeperReply, HostError> {
        match ask {
            Treat::Impossible { variant, base } => {
                let obstacle = host_tunings::impossible(&variant, base.as_deref());
                Ok(KeeperReply::Obstacle { obstacle })
            }
            Treat::Know { treatments } => self.open(&treatments),
            Treat::TryOut { treatment } => self.try_out(&treatment),
            Treat::Begin { treatment } => self.begin(treatment),
            Treat::End { is_ok } => self.end(is_ok),
            Treat::PutBack => self.put_back(),
        }
    }

    fn open(&mut self, treatments: &[OwnTreatment]) -> Result<KeeperReply, HostError> {
        if self.tuner.is_none() {
            let treatments: Vec<_> = treatments.iter().map(OwnTreatment::as_treatment).collect();
            self.tuner = Some(host_tunings::open(&treatments)?);
        }
        Ok(KeeperReply::Done)
    }

    fn tuner(&mut self) -> Result<&mut Tuner, HostError> {
        self.tuner.as_mut().ok_or(HostError::NoTreatments)
    }

    fn try_out(&mut self, treatment: &OwnTreatment) -> Result<KeeperReply, HostError> {
        Ok(KeeperReply::Feasible { reason: host_tunings::try_one(self.tuner()?, treatment.as_treatment())? })
    }

    fn begin(&mut self, treatment: OwnTreatment) -> Result<KeeperReply, HostError> {
        info!("beginning a slot's changes");
        let before = host_tunings::begin(self.tuner()?, treatment.as_treatment())?;
        self.slot = Some((treatment, before));
        self.seen.clear();
        Ok(KeeperReply::Done)
    }

    fn end(&mut self, is_ok: bool) -> Result<KeeperReply, HostError> {
        let (treatment, before) = self.slot.take().ok_or(HostError::NoneBegun)?;
        let seen = match self.seen.as_slice() {
            [opened, .., closed] => Some((opened.clone(), closed.clone())),
            _ => None,
        };
        let (treatment, tuner) = (treatment.as_treatment(), self.tuner()?);
        let back = host_tunings::undo(tuner, treatment, is_ok)?;
        info!("undid a slot's changes");
        if !is_ok {
            return Ok(KeeperReply::Done);
        }
        host_tunings::prove(tuner, treatment, before, seen, back).map(KeeperReply::Proof)
    }

    fn put_back(&mut self) -> Result<KeeperReply, HostError> {
        host_tunings::all_is_back(self.tuner.take())?;
        Ok(KeeperReply::Done)
    }
}
