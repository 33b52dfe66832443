//! Treatments of another host, as its keeper carries them out.

use plumb_tunings::{Sight, Tuner};
use tracing::info;

use super::wire::{Answer, OwnTreatment, Treat};
use crate::host_tunings;

/// The treatments of this host.
#[derive(Default)]
pub(crate) struct Treating {
    tuner: Option<Tuner>,
    /// The treatment in effect for the current slot, and the settings before it.
    slot: Option<(OwnTreatment, Sight)>,
    /// The settings at the opening and the close of the window.
    seen: Vec<Sight>,
}

impl Treating {
    /// Reads the settings as part of a look at the host.
    pub(crate) fn look(&mut self) {
        self.seen.extend(self.tuner.as_ref().map(Tuner::look));
    }

    /// Carries out a request.
    pub(crate) fn answer(&mut self, ask: Treat) -> Result<Answer, String> {
        match ask {
            Treat::Impossible { variant, base } => {
                let obstacle = host_tunings::impossible(&variant, base.as_deref());
                Ok(Answer::Obstacle { obstacle })
            }
            Treat::Know { treatments } => self.open(&treatments),
            Treat::TryOut { treatment } => self.try_out(&treatment),
            Treat::Begin { treatment } => self.begin(treatment),
            Treat::End { is_ok } => self.end(is_ok),
            Treat::PutBack => self.put_back(),
        }
    }

    fn open(&mut self, treatments: &[OwnTreatment]) -> Result<Answer, String> {
        let treatments: Vec<_> = treatments.iter().map(OwnTreatment::as_treatment).collect();
        // The previous tuner holds the lock that the new one needs.
        self.tuner = None;
        self.tuner = Some(host_tunings::open(&treatments).map_err(|error| error.to_string())?);
        Ok(Answer::Done)
    }

    fn tuner(&mut self) -> Result<&mut Tuner, String> {
        self.tuner.as_mut().ok_or_else(|| "treat this host: nothing was said of treatments".to_owned())
    }

    fn try_out(&mut self, treatment: &OwnTreatment) -> Result<Answer, String> {
        let refused = host_tunings::try_one(self.tuner()?, treatment.as_treatment());
        Ok(Answer::Feasible { reason: refused.map_err(|error| error.to_string())? })
    }

    fn begin(&mut self, treatment: OwnTreatment) -> Result<Answer, String> {
        info!("beginning a slot's changes");
        let before = host_tunings::begin(self.tuner()?, treatment.as_treatment());
        self.slot = Some((treatment, before.map_err(|error| error.words())?));
        self.seen.clear();
        Ok(Answer::Done)
    }

    fn end(&mut self, is_ok: bool) -> Result<Answer, String> {
        let Some((treatment, before)) = self.slot.take() else {
            return Err("end a treatment: none was begun".to_owned());
        };
        let seen = match self.seen.as_slice() {
            [opened, .., closed] => Some((opened.clone(), closed.clone())),
            _ => None,
        };
        let (treatment, tuner) = (treatment.as_treatment(), self.tuner()?);
        let back = host_tunings::undo(tuner, treatment, is_ok).map_err(|error| error.words())?;
        info!("undid a slot's changes");
        if !is_ok {
            return Ok(Answer::Done);
        }
        let proof = host_tunings::prove(tuner, treatment, before, seen, back);
        proof.map(Answer::Proof).map_err(|error| error.words())
    }

    fn put_back(&mut self) -> Result<Answer, String> {
        host_tunings::all_is_back(self.tuner.take()).map_err(|error| error.to_string())?;
        Ok(Answer::Done)
    }
}
