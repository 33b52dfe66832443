//! How claims share one error probability.
//!
//! Each begins with the same part. One that is decided passes its part on to the undecided ones, in equal parts: the
//! graphical procedure of Maurer and Bretz, "Multiple Testing in Group Sequential Trials Using Graphical Approaches"
//! (Statistics in Biopharmaceutical Research 2013), with equal weights. With k of m claims decided the others are judged at
//! α/(m − k).

/// The part of `alpha` at which each of `claims` claims is judged, where `is_decided(claim, part)` says what the data make of
/// one. A claim keeps the part at which it was decided.
pub fn share_alpha(alpha: f64, claims: usize, is_decided: impl Fn(usize, f64) -> bool) -> Vec<f64> {
    let mut parts = vec![0.0; claims];
    let mut open: Vec<usize> = (0..claims).collect();
    loop {
        let before = open.len();
        let part = alpha / before.max(1) as f64;
        open.iter().for_each(|claim| parts[*claim] = part);
        open.retain(|claim| !is_decided(*claim, part));
        if open.len() == before {
            return parts;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A claim with a p-value is decided by any part of α that is at least as large.
    fn parts(p_values: &[f64]) -> Vec<f64> {
        share_alpha(0.06, p_values.len(), |claim, part| p_values[claim] <= part)
    }

    #[test]
    fn a_decided_claim_passes_its_part_on() {
        assert_eq!(parts(&[0.5, 0.5, 0.5]), [0.02; 3]);
        assert_eq!(parts(&[0.5, 0.01, 0.5]), [0.03, 0.02, 0.03]);
        // The first decides the second, which decides the third.
        assert_eq!(parts(&[0.05, 0.01, 0.03]), [0.06, 0.02, 0.03]);
        assert_eq!(parts(&[0.05, 0.01, 0.04]), [0.03, 0.02, 0.03]);
    }

    #[test]
    fn no_claims_have_no_parts() {
        assert_eq!(parts(&[]), []);
        assert_eq!(parts(&[0.06]), [0.06]);
    }
}
