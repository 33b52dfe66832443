//! Claims: statements about metrics, written before the run, read into a typed form.
//!
//! ```text
//! <variant>.<metric>[.<statistic>]  >= | <= | > | <   [<factor> *] (<variant>.<metric>[.<statistic>] | <quantity>)
//! <variant>.<metric>[.<statistic>]  ==                [<factor> *] (…) within <percent>
//! <variant>.<rate metric>           <= | <            <quantity> [within <percent>]
//! <variant>.<metric>[.<statistic>]  /                 <variant>.<metric>[.<statistic>] within <percent>
//! ```
//!
//! The third form is a cap: it speaks of every one-second window and not of a mean. The last one is an estimate that a run is
//! to take, and has no threshold. A claim is resolved against the
//! experiment's variants and the data path's metrics while it is read, so that a claim that exists is a claim that
//! can be judged; every error knows the offending part of the text.

use serde::{Deserialize, Serialize};

use crate::capacity::Objective;
use crate::metric::{Better, MetricInfo, MetricKind, Statistic};
use crate::name::suggestion;
use crate::number::{self, NumberError};
use crate::quantity::{Dimension, Quantity};
pub use crate::relation::Relation;

/// One side of a claim: a metric of a variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// The variant's name.
    pub variant: String,
    /// The metric's name.
    pub metric: String,
    /// The statistic, for trends.
    pub statistic: Option<Statistic>,
}

impl std::fmt::Display for Term {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.variant, self.metric)?;
        match self.statistic {
            Some(statistic) => write!(formatter, ".{}", statistic.name()),
            None => Ok(()),
        }
    }
}

/// The right side of a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operand {
    /// A factor times a metric of a variant.
    Term {
        /// The factor θ.
        factor: f64,
        /// The metric.
        term: Term,
    },
    /// A fixed value in the left metric's unit.
    Value(f64),
    /// A cap on every one-second window, in the left metric's unit, with a tolerance as a share of one.
    Cap {
        /// The cap.
        value: f64,
        /// By how much a window may be above it.
        tolerance: f64,
    },
}

/// A statement about metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// As it was written.
    pub text: String,
    /// The left side.
    pub left: Term,
    /// The relation.
    pub relation: Relation,
    /// The right side.
    pub right: Operand,
    /// A note on its metrics, under the settings of its variants, that a reader of its verdict needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Claim {
    /// The metrics: the left one, and the right one if there is one.
    pub fn terms(&self) -> impl Iterator<Item = &Term> {
        let right = match &self.right {
            Operand::Term { term, .. } => Some(term),
            Operand::Value(_) | Operand::Cap { .. } => None,
        };
        std::iter::once(&self.left).chain(right)
    }

    /// Every variant that the claim speaks of.
    #[must_use]
    pub fn variants(&self) -> Vec<&str> {
        match &self.right {
            Operand::Term { term, .. } => vec![&self.left.variant, &term.variant],
            Operand::Value(_) | Operand::Cap { .. } => vec![&self.left.variant],
        }
    }
}

/// Why a text is not a claim, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClaimError {
    /// The mistake, and the correct form.
    pub message: String,
    /// Byte offset of the offending part in the claim's text.
    pub offset: usize,
    /// The length in bytes, at least 1.
    pub length: usize,
}

/// The names that a claim may use.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The experiment's variants.
    pub variants: &'a [String],
    /// The data path's metrics.
    pub metrics: &'a [MetricInfo],
}

/// A word of the text with its place.
#[derive(Debug, Clone, Copy)]
struct Piece<'t> {
    text: &'t str,
    offset: usize,
}

impl<'t> Piece<'t> {
    fn trimmed(self) -> Self {
        let lead = self.text.len() - self.text.trim_start().len();
        Self { text: self.text.trim(), offset: self.offset + lead }
    }

    fn part(self, from: usize, to: usize) -> Self {
        Self { text: &self.text[from..to], offset: self.offset + from }
    }

    fn error(self, message: impl Into<String>) -> ClaimError {
        ClaimError { message: message.into(), offset: self.offset, length: self.text.len().max(1) }
    }
}

const RELATIONS: [&str; 5] = [">=", "<=", "==", ">", "<"];

/// Relations as people mistype them or write them elsewhere, each with the relation to write.
const MISTYPED: [(&str, &str); 4] = [("=>", ">="), ("=<", "<="), ("≥", ">="), ("≤", "<=")];

impl Scope<'_> {
    /// Reads one claim.
    ///
    /// # Errors
    /// When the text is not of the grammar, or names a variant, a metric or a statistic that there is not.
    pub fn read_claim(self, text: &str) -> Result<Claim, ClaimError> {
        let whole = Piece { text, offset: 0 }.trimmed();
        let (at, symbol) = find_relation(whole)?;
        let left_piece = whole.part(0, at).trimmed();
        let right_piece = whole.part(at + symbol.len(), whole.text.len()).trimmed();
        without_arithmetic(left_piece)?;
        let (left, metric) = self.term(left_piece)?;
        let (right_piece, within) = split_within(right_piece)?;
        let symbol_piece = whole.part(at, at + symbol.len());
        let relation = relation(symbol_piece, within)?;
        let read = |piece: Piece<'_>| {
            let right = self.operand(piece, &left, metric, relation, within)?;
            let is_cap = matches!(right, Operand::Cap { .. });
            if within.is_some() && !is_cap && !matches!(relation, Relation::EqualWithin(_)) {
                return Err(symbol_piece
                    .error("`within` goes with `==`, or with a cap on a rate (`<= 500 IOPS within 1%`)"));
            }
            Ok(right)
        };
        let right = read(right_piece).map_err(|error| {
            let Some((rule, suggested)) = self.slip(right_piece.text, metric) else { return error };
            let readable = suggested.filter(|text| read(Piece { text, offset: 0 }).is_ok());
            right_piece.error(match readable {
                Some(text) => format!("{rule}; write `{text}`"),
                None => format!("{rule}; {PRODUCT}"),
            })
        })?;
        Ok(Claim { text: text.trim().to_owned(), left, relation, right, note: None })
    }

    /// Reads what a run is to estimate, and how closely.
    ///
    /// # Errors
    /// As [`Scope::read_claim`].
    pub fn read_estimate(self, text: &str) -> Result<Claim, ClaimError> {
        const FORM: &str =
            "an estimate is a ratio of two metrics, such as `b.http_reqs / a.http_reqs within 5%`";
        let whole = Piece { text, offset: 0 }.trimmed();
        let Some(at) = whole.text.find('/') else { return Err(whole.error(FORM)) };
        let (left, metric) = self.term(whole.part(0, at).trimmed())?;
        let end = whole.text.strip_suffix(" or apart").map(str::len);
        let (right_piece, within) =
            split_within(whole.part(at + 1, end.unwrap_or(whole.text.len())).trimmed())?;
        let Some(share) = within.filter(|share| *share > 0.0) else { return Err(whole.error(FORM)) };
        if matches!(metric.kind, MetricKind::Share | MetricKind::Count) {
            return Err(
                whole.error(format!("`{}` can be 0, where there is no ratio to estimate", metric.name))
            );
        }
        let relation = match end {
            Some(_) => Relation::KnownWithinOrApart(share),
            None => Relation::KnownWithin(share),
        };
        match self.operand(right_piece, &left, metric, relation, within)? {
            right @ Operand::Term { factor, .. } if (factor - 1.0).abs() < f64::EPSILON => {
                Ok(Claim { text: text.trim().to_owned(), left, relation, right, note: None })
            }
            _ => Err(right_piece.error(FORM)),
        }
    }

    /// Reads an objective: a claim on a metric without a variant. A statistic alone is one of the first of the
    /// metrics `latency`, which have a time for each unit of work.
    ///
    /// # Errors
    /// As [`Scope::read_claim`].
    pub fn read_objective(self, text: &str, latency: &[&str]) -> Result<Objective, ClaimError> {
        let whole = Piece { text, offset: 0 }.trimmed();
        let (at, symbol) = find_relation(whole)?;
        let (left, symbol_piece) = (whole.part(0, at).trimmed(), whole.part(at, at + symbol.len()));
        if symbol == "==" {
            return Err(symbol_piece.error("an objective is a limit; write `<`, `<=`, `>` or `>=`"));
        }
        let (metric, statistic) = match (Statistic::from_name(left.text), latency.first()) {
            (Some(statistic), Some(latency)) => {
                (self.metric(Piece { text: latency, ..left })?, Some(statistic))
            }
            (Some(_), None) => return Err(left.error(self.several_with(left.text))),
            (None, _) if is_percentile(left.text) => return Err(no_statistic(left)),
            (None, _) => self.metric_of(left)?,
        };
        let limit = whole.part(at + symbol.len(), whole.text.len()).trimmed();
        let relation = relation(symbol_piece, None)?;
        // An overload would meet such a limit, and the search would never end.
        let wrong = match (metric.better, relation) {
            (Better::Lower, Relation::AtLeast | Relation::Above) => Some("`<` or `<=`: less of it is better"),
            (Better::Higher, Relation::AtMost | Relation::Below) => Some("`>` or `>=`: more of it is better"),
            _ => None,
        };
        if let Some(right) = wrong {
            return Err(
                symbol_piece.error(format!("an objective on `{}` is written with {right}", metric.name))
            );
        }
        Ok(Objective {
            text: whole.text.to_owned(),
            metric: metric.name.clone(),
            statistic,
            relation,
            limit: value_in(limit, metric)?,
            unit: metric.unit,
            is_of_all: latency.contains(&metric.name.as_str()),
        })
    }

    /// Why a statistic needs the name of a metric.
    fn several_with(self, statistic: &str) -> String {
        let mut trends = self.metrics.iter().filter(|metric| metric.kind == MetricKind::Trend);
        let example = trends.next().map_or("metric", |metric| metric.name.as_str());
        format!("several times have a `{statistic}` here; name one, such as `{example}.{statistic}`")
    }

    fn metric<'s>(&'s self, name: Piece<'_>) -> Result<&'s MetricInfo, ClaimError> {
        self.metrics.iter().find(|metric| metric.name == name.text).ok_or_else(|| {
            let hint = suggestion(name.text, self.metrics.iter().map(|metric| metric.name.as_str()));
            name.error(format!("no metric is named `{}`; {hint}", name.text))
        })
    }

    /// Reads `<metric>[.<statistic>]`.
    fn metric_of<'s>(&'s self, piece: Piece<'_>) -> Result<(&'s MetricInfo, Option<Statistic>), ClaimError> {
        let (name, statistic) = match piece.text.find('.') {
            Some(dot) => {
                (piece.part(0, dot).trimmed(), Some(piece.part(dot + 1, piece.text.len()).trimmed()))
            }
            None => (piece.trimmed(), None),
        };
        let metric = self.metric(name)?;
        Ok((metric, statistic_of(metric, name, statistic)?))
    }

    fn term<'s>(&'s self, piece: Piece<'_>) -> Result<(Term, &'s MetricInfo), ClaimError> {
        if piece.text.is_empty() {
            return Err(piece.error("a term `<variant>.<metric>` is missing here"));
        }
        let Some(dot) = piece.text.find('.') else {
            return Err(piece.error(format!(
                "`{}` is not a term; a term is `<variant>.<metric>`, such as `{}.{}`",
                piece.text,
                self.variants.first().map_or("software", String::as_str),
                self.metrics.first().map_or("http_reqs", |metric| metric.name.as_str()),
            )));
        };
        let variant = piece.part(0, dot).trimmed();
        let rest = piece.part(dot + 1, piece.text.len());
        if !self.variants.iter().any(|known| known == variant.text) {
            let hint = suggestion(variant.text, self.variants.iter().map(String::as_str));
            return Err(variant.error(format!("no variant is named `{}`; {hint}", variant.text)));
        }
        let (metric, statistic) = self.metric_of(rest)?;
        Ok((Term { variant: variant.text.to_owned(), metric: metric.name.clone(), statistic }, metric))
    }

    fn operand(
        self,
        piece: Piece<'_>,
        left: &Term,
        metric: &MetricInfo,
        relation: Relation,
        within: Option<f64>,
    ) -> Result<Operand, ClaimError> {
        if piece.text.is_empty() {
            return Err(piece.error("a term or a quantity is missing after the relation"));
        }
        let (factor, operand) = match piece.text.find('*') {
            Some(star) => {
                (factor(piece.part(0, star).trimmed())?, piece.part(star + 1, piece.text.len()).trimmed())
            }
            None => (1.0, piece),
        };
        if !operand.text.starts_with(|first: char| first.is_ascii_digit() || first == '-' || first == '.') {
            let (term, other) = self.term(operand)?;
            if other.unit.dimension() != metric.unit.dimension() {
                return Err(operand.error(format!(
                    "`{}` is in {} and `{}` in {}; they cannot be compared",
                    other.name,
                    other.unit.symbol(),
                    metric.name,
                    metric.unit.symbol()
                )));
            }
            let same_unit = metric.unit.per_base() / other.unit.per_base();
            return Ok(Operand::Term { factor: factor * same_unit, term });
        }
        let value = factor * value_in(operand, metric)?;
        let upper = matches!(relation, Relation::AtMost | Relation::Below);
        if upper && metric.kind == MetricKind::Rate && left.statistic.is_none() {
            return Ok(Operand::Cap { value, tolerance: within.unwrap_or(0.0) });
        }
        if value <= 0.0 && !matches!(metric.kind, MetricKind::Share | MetricKind::Count) {
            return Err(operand.error(format!(
                "`{}` is judged by its ratio to the quantity, and there is no ratio to 0; write a quantity above 0",
                metric.name
            )));
        }
        Ok(Operand::Value(value))
    }

    fn is_term(self, text: &str) -> bool {
        text.trim()
            .split_once('.')
            .is_some_and(|(variant, _)| self.variants.iter().any(|known| known == variant))
    }

    /// Finds the rule that a right side of products or sums breaks, and suggests another made of the same numbers. The
    /// suggestion may not be readable either.
    fn slip(self, right: &str, metric: &MetricInfo) -> Option<(&'static str, Option<String>)> {
        let product = |factor: Option<String>, term: &str| Some(format!("{} * {}", factor?, term.trim()));
        let has_term = right.split([' ', '+', '*']).any(|word| self.is_term(word));
        // A variant's name may have a `-`, but no blank.
        let sum = right.split_once('+').map(|sum| (1.0, sum));
        let sum = sum.or_else(|| right.split_once(" -").map(|difference| (-1.0, difference)));
        if let Some((direction, (term, amount))) = sum.filter(|_| has_term) {
            // A percentage that is added to a share may be one of the whole.
            let is_relative = metric.unit.dimension() != Dimension::Share;
            let factor = suggested_sum(direction, amount).filter(|_| is_relative);
            return Some(("a claim has factors and no sums", product(factor, term)));
        }
        if let Some((before, after)) = right.split_once('*') {
            let is_reversed = self.is_term(before);
            let (factor, term) = if is_reversed { (after, before) } else { (before, after) };
            if is_reversed || (before.trim_end().ends_with('%') && self.is_term(after)) {
                let rule = "a factor is a number and stands before the metric";
                return Some((rule, product(suggested_factor(factor), term)));
            }
        }
        let is_of_number = |character: char| character.is_ascii_digit() || matches!(character, '.' | '_');
        let end = right.find(|character| !is_of_number(character)).unwrap_or(right.len());
        let end = end + usize::from(right[end..].starts_with('%'));
        let (number, rest) = right.split_at(end);
        let rest = rest.trim_start();
        let terms =
            ["", "x", "×", "of ", "times "].map(|word| rest.strip_prefix(word).unwrap_or(rest).trim_start());
        let term = terms.into_iter().find(|term| !number.is_empty() && self.is_term(term))?;
        Some(("a `*` is missing", product(suggested_factor(number), term)))
    }
}

fn find_relation(whole: Piece<'_>) -> Result<(usize, &'static str), ClaimError> {
    for (at, character) in whole.text.char_indices() {
        let begins = |symbol: &str| whole.text[at..].starts_with(symbol);
        if let Some((wrong, right)) = MISTYPED.iter().find(|(wrong, _)| begins(wrong)) {
            let piece = whole.part(at, at + wrong.len());
            return Err(piece.error(format!("`{wrong}` is not a relation; write `{right}`")));
        }
        if let Some(symbol) = RELATIONS.iter().find(|symbol| begins(symbol)) {
            return Ok((at, symbol));
        }
        if matches!(character, '=' | '~') {
            let piece = whole.part(at, at + 1);
            return Err(piece.error(format!("`{character}` is not a relation; known: >=, <=, >, <, ==")));
        }
    }
    Err(whole.error("a claim needs a relation: >=, <=, >, < or =="))
}

/// Refuses arithmetic on the left side, which is one metric.
fn without_arithmetic(left: Piece<'_>) -> Result<(), ClaimError> {
    if left.text.contains(['*', '+']) {
        return Err(left.error(
            "the left side is one metric; write its factor on the right side, before that metric and a `*`",
        ));
    }
    Ok(())
}

/// The forms of a right side. No number is in it, because a reader could take one for a suggestion.
const PRODUCT: &str = "the right side is a quantity, a metric, or `<factor> * <variant>.<metric>` with one number as its factor";

/// A factor that is written as a number or as a percentage, as the number to write.
fn suggested_factor(text: &str) -> Option<String> {
    let text = text.trim();
    let Some(percent) = text.strip_suffix('%') else { return Some(text.to_owned()) };
    number::decimal(percent.trim_end(), -2).ok().map(|factor| factor.to_string())
}

/// `1.2` for a metric and 20% of it. `None` where six decimals do not give the factor exactly, or there is none above 0.
fn suggested_sum(direction: f64, amount: &str) -> Option<String> {
    const DECIMALS: f64 = 1e6;
    let share = number::decimal(amount.trim().strip_suffix('%')?.trim_end(), -2).ok()?;
    let exact = 1.0 + direction * share;
    let factor = (exact * DECIMALS).round() / DECIMALS;
    let is_exact = (factor - exact).abs() <= share * 1e-9;
    (share >= 0.0 && is_exact && factor > 0.0 && factor <= DECIMALS).then(|| factor.to_string())
}

fn split_within(right: Piece<'_>) -> Result<(Piece<'_>, Option<f64>), ClaimError> {
    let Some(at) = right.text.find(" within ") else { return Ok((right, None)) };
    let tolerance = right.part(at + " within ".len(), right.text.len()).trimmed();
    let share = Quantity::parse_as(tolerance.text, Dimension::Share)
        .map_err(|error| tolerance.error(error.to_string()))?;
    Ok((right.part(0, at).trimmed(), Some(share.value)))
}

fn relation(symbol: Piece<'_>, within: Option<f64>) -> Result<Relation, ClaimError> {
    Ok(match symbol.text {
        ">=" => Relation::AtLeast,
        "<=" => Relation::AtMost,
        ">" => Relation::Above,
        "<" => Relation::Below,
        _ => match within {
            Some(tolerance) if tolerance > 0.0 => Relation::EqualWithin(tolerance),
            _ => {
                return Err(symbol.error(
                    "`==` needs `within <percent>` at the end: no two measurements are exactly equal",
                ));
            }
        },
    })
}

fn factor(piece: Piece<'_>) -> Result<f64, ClaimError> {
    match plain_number(piece)? {
        Some(factor) if factor > 0.0 => Ok(factor),
        _ => Err(piece.error(format!("`{}` is not a factor; write a number above 0 before `*`", piece.text))),
    }
}

/// A finite number without a unit; `None` for anything else but a comma, which has its own message.
fn plain_number(piece: Piece<'_>) -> Result<Option<f64>, ClaimError> {
    match number::decimal(piece.text, 0) {
        Ok(value) => Ok(Some(value).filter(|value| value.is_finite())),
        Err(NumberError::NotANumber) => Ok(None),
        Err(NumberError::Comma(hint)) => Err(piece.error(format!("`{}` has a comma: {hint}", piece.text))),
    }
}

fn statistic_of(
    metric: &MetricInfo,
    name: Piece<'_>,
    statistic: Option<Piece<'_>>,
) -> Result<Option<Statistic>, ClaimError> {
    match (metric.kind, statistic) {
        (MetricKind::Trend, None) => Err(name.error(format!(
            "`{}` is a distribution; say which statistic, such as `{}.p95` ({})",
            metric.name,
            metric.name,
            statistics()
        ))),
        (MetricKind::Trend, Some(piece)) => {
            Statistic::from_name(piece.text).map(Some).ok_or_else(|| no_statistic(piece))
        }
        (_, Some(piece)) => {
            Err(piece.error(format!("`{}` is one number and has no statistic `{}`", metric.name, piece.text)))
        }
        (_, None) => Ok(None),
    }
}

fn no_statistic(piece: Piece<'_>) -> ClaimError {
    piece.error(format!("no statistic is named `{}`; known: {}", piece.text, statistics()))
}

fn statistics() -> String {
    Statistic::ALL.iter().map(|statistic| statistic.name()).collect::<Vec<_>>().join(", ")
}

/// Whether a word looks like a percentile, such as `p98` or `p99.5`.
fn is_percentile(word: &str) -> bool {
    word.strip_prefix('p').is_some_and(|number| number.parse::<f64>().is_ok())
}

fn value_in(piece: Piece<'_>, metric: &MetricInfo) -> Result<f64, ClaimError> {
    if metric.unit.dimension() == Dimension::Count {
        return match plain_number(piece)? {
            Some(value) if value >= 0.0 => Ok(value),
            _ => Err(piece.error(format!("`{}` is a count; compare it with a plain number", metric.name))),
        };
    }
    match Quantity::parse_as(piece.text, metric.unit.dimension()) {
        Ok(quantity) => Ok(quantity.value * metric.unit.per_base()),
        Err(error) => Err(piece.error(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Better, Unit};
    use proptest::prelude::*;

    fn scope_data() -> (Vec<String>, Vec<MetricInfo>) {
        let metric = |name: &str, unit, kind| MetricInfo {
            name: name.to_owned(),
            unit,
            better: Better::Higher,
            kind,
            about: String::new(),
        };
        (
            vec!["software".to_owned(), "multi-buffer".to_owned()],
            vec![
                metric("http_reqs", Unit::PerSecond, MetricKind::Rate),
                metric("http_req_duration", Unit::Milliseconds, MetricKind::Trend),
                metric("checks", Unit::Share, MetricKind::Share),
                metric("handshakes_resumed", Unit::Count, MetricKind::Count),
                metric("cpu_system", Unit::Microseconds, MetricKind::Gauge),
            ],
        )
    }

    fn read_claim(text: &str) -> Result<Claim, ClaimError> {
        let (variants, metrics) = scope_data();
        Scope { variants: &variants, metrics: &metrics }.read_claim(text)
    }

    #[test]
    fn the_forms_of_the_grammar_are_read() {
        let claim = read_claim("multi-buffer.http_reqs >= 1.2 * software.http_reqs").unwrap();
        assert_eq!(claim.relation, Relation::AtLeast);
        assert!(matches!(claim.right, Operand::Term { factor, .. } if (factor - 1.2).abs() < 1e-12));
        let claim =
            read_claim("multi-buffer.http_req_duration.p99.9<software.http_req_duration.p95").unwrap();
        assert_eq!(claim.left.statistic, Some(Statistic::P999));
        assert_eq!(claim.relation, Relation::Below);
        let claim = read_claim("software.http_req_duration.p95 < 200 ms").unwrap();
        assert!(matches!(claim.right, Operand::Value(value) if (value - 200.0).abs() < 1e-9));
        let claim = read_claim("software.http_reqs <= 500 /s within 1%").unwrap();
        assert_eq!(claim.right, Operand::Cap { value: 500.0, tolerance: 0.01 });
        let claim = read_claim("software.http_reqs == multi-buffer.http_reqs within 2%").unwrap();
        assert_eq!(claim.relation, Relation::EqualWithin(0.02));
        let claim = read_claim("software.checks >= 99.9%").unwrap();
        assert_eq!(claim.right, Operand::Value(0.999));
        assert_eq!(read_claim("software.http_reqs > 500").unwrap().right, Operand::Value(500.0));
        assert!(matches!(read_claim("software.handshakes_resumed <= 0").unwrap().right, Operand::Value(_)));
    }

    #[test]
    fn an_estimate_is_a_ratio_and_how_closely_it_is_to_be_known() {
        let (variants, metrics) = scope_data();
        let read_estimate = |text: &str| Scope { variants: &variants, metrics: &metrics }.read_estimate(text);
        let estimate = read_estimate("multi-buffer.http_reqs / software.http_reqs within 5%").unwrap();
        assert_eq!(estimate.relation, Relation::KnownWithin(0.05));
        let apart = read_estimate("multi-buffer.http_reqs / software.http_reqs within 5% or apart").unwrap();
        assert_eq!((apart.relation, &apart.right), (Relation::KnownWithinOrApart(0.05), &estimate.right));
        assert_eq!(estimate.variants(), ["multi-buffer", "software"]);
        for (text, part, message) in [
            ("software.http_reqs within 5%", "software.http_reqs within 5%", "a ratio of two metrics"),
            (
                "multi-buffer.http_reqs / software.http_reqs",
                "multi-buffer.http_reqs / software.http_reqs",
                "within",
            ),
            ("software.http_reqs / 5 /s within 1%", "5 /s", "a ratio of two metrics"),
            (
                "software.checks / multi-buffer.checks within 1%",
                "software.checks / multi-buffer.checks within 1%",
                "no ratio",
            ),
            ("software.http_reqs / software.http_rqs within 1%", "http_rqs", "did you mean"),
        ] {
            let error = read_estimate(text).unwrap_err();
            assert_eq!(&text[error.offset..error.offset + error.length], part, "{text}");
            assert!(error.message.contains(message), "{text}: {}", error.message);
        }
    }

    #[test]
    fn a_suggestion_has_the_number_that_was_written() {
        for (right, suggested) in [
            ("multi-buffer.http_reqs + 120%", "2.2"),
            ("multi-buffer.http_reqs + 20%", "1.2"),
            ("multi-buffer.http_reqs+0.5 %", "1.005"),
            ("multi-buffer.http_reqs - 15%", "0.85"),
            ("multi-buffer.http_reqs * 1.2", "1.2"),
            ("multi-buffer.http_reqs * 120%", "1.2"),
            ("120% * multi-buffer.http_reqs", "1.2"),
            ("120% multi-buffer.http_reqs", "1.2"),
            ("1.25x multi-buffer.http_reqs", "1.25"),
        ] {
            let error = read_claim(&format!("software.http_reqs > {right}")).unwrap_err();
            let written = format!("; write `{suggested} * multi-buffer.http_reqs`");
            assert!(error.message.ends_with(&written), "{right}: {}", error.message);
            assert_eq!((error.offset, error.length), ("software.http_reqs > ".len(), right.len()));
        }
    }

    #[test]
    fn where_no_claim_is_surely_meant_the_rule_is_named_without_a_number() {
        for right in [
            "multi-buffer.http_reqs + 100 /s",
            "multi-buffer.http_reqs + software.http_reqs",
            "multi-buffer.http_reqs - 5 ms",
            "multi-buffer.http_reqs - 120%",
            "multi-buffer.http_reqs - 100%",
            "multi-buffer.http_reqs + -5%",
            "multi-buffer.http_reqs + 0.000001%",
            "multi-buffer.http_reqs + 1e300%",
            "multi-buffer.http_reqs * 0",
            "multi-buffer.http_reqs * software.http_reqs",
            "20% + multi-buffer.http_reqs",
            "1.2 multi-buffer.http_reqs + 5%",
            "1.2 * multi-buffer.http_reqs + 5%",
            "1.2.3 multi-buffer.http_reqs",
            "1.2 multi-buffer.http_reqs * 2",
            "1.2 multi-buffer.http_reqs within 5%",
        ] {
            let message = read_claim(&format!("software.http_reqs > {right}")).unwrap_err().message;
            assert!(message.ends_with(PRODUCT) && !message.contains(char::is_numeric), "{right}: {message}");
        }
        let of_share = read_claim("software.checks > multi-buffer.checks + 5%").unwrap_err().message;
        assert!(of_share.ends_with(PRODUCT), "{of_share}");
        let on_the_left = read_claim("software.http_reqs * 2 > multi-buffer.http_reqs").unwrap_err().message;
        assert!(!on_the_left.contains(char::is_numeric), "{on_the_left}");
    }

    #[test]
    fn an_error_points_at_the_offending_part() {
        let check = |text: &str, part: &str, message: &str| {
            let error = read_claim(text).unwrap_err();
            assert_eq!(&text[error.offset..(error.offset + error.length).min(text.len())], part, "{text}");
            assert!(error.message.contains(message), "{text}: {}", error.message);
        };
        check("multibuffer.http_reqs > software.http_reqs", "multibuffer", "did you mean `multi-buffer`?");
        check("software.http_rqs > 5 /s", "http_rqs", "did you mean `http_reqs`?");
        check("software.http_req_duration < 5 ms", "http_req_duration", "say which statistic");
        check("software.http_req_duration.p42 < 5 ms", "p42", "no statistic is named");
        check("software.http_reqs.p95 > 5 /s", "p95", "has no statistic");
        check("software.http_reqs > 5 ms", "5 ms", "a rate such as");
        check("software.http_req_duration.p95 > 5", "5", "has no unit");
        check("software.http_req_duration.p95 < 1,0 ms", "1,0 ms", "`1.0`");
        check("software.http_reqs > 1,2 * software.http_reqs", "1,2", "`1.2`");
        check("software.handshakes_resumed <= 1,000", "1,000", "`1000`");
        check("software.http_reqs = 5 /s", "=", "is not a relation");
        check("software.http_reqs == 5 /s", "==", "needs `within");
        check("software.http_reqs => 5 /s", "=>", "write `>=`");
        check("software.http_reqs =< 5 /s", "=<", "write `<=`");
        check("software.http_reqs ≥ 5 /s", "≥", "write `>=`");
        check("software.http_reqs > 1.2 software.http_reqs", "1.2 software.http_reqs", "a `*` is missing");
        check(
            "software.http_reqs > 1.2x multi-buffer.http_reqs",
            "1.2x multi-buffer.http_reqs",
            "`1.2 * multi",
        );
        for right in ["120% of multi-buffer.http_reqs", "1.2 times multi-buffer.http_reqs"] {
            check(&format!("software.http_reqs > {right}"), right, "write `1.2 * multi-buffer.http_reqs`");
        }
        check(
            "software.http_reqs > multi-buffer.http_reqs + 20%",
            "multi-buffer.http_reqs + 20%",
            "`1.2 * multi-b",
        );
        check(
            "software.http_reqs > multi-buffer.http_reqs - 15%",
            "multi-buffer.http_reqs - 15%",
            "`0.85 * multi",
        );
        check("1.2 * software.http_reqs > 5 /s", "1.2 * software.http_reqs", "on the right side");
        check("software.cpu_system > 0 us", "0 us", "there is no ratio to 0; write a quantity above 0");
        check("software.http_reqs >= 2 * 0 /s", "0 /s", "there is no ratio to 0");
        check("software.http_reqs", "software.http_reqs", "needs a relation");
        check("software.http_reqs > x * software.http_reqs", "x", "is not a factor");
        check("software.http_reqs > software.checks", "software.checks", "cannot be compared");
        check("software.http_reqs >= software.http_reqs within 2%", ">=", "`within` goes with");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = read_claim(&text);
        }

        #[test]
        fn near_claims_do_not_panic(text in "(software|multi-buffer|x)?\\.?(http_reqs|checks)?\\.?(p95)? ?(>=|<|==|=)? ?([0-9.*-]){0,6}( within )?( ms|%|é)?") {
            let _ = read_claim(&text);
        }
    }
}
