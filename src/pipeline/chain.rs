//! What may follow what: everything that can be wrong with a chain of stages apart from their settings.

use crate::{
    diagnostic::suggest,
    stage::{Kind, Knowledge},
};
use std::{collections::BTreeMap, fmt};

/// One stage, as far as it is known: in a file with mistakes some of it may be missing.
#[derive(Clone, Copy, Default)]
pub(crate) struct Link<'a> {
    /// The name that was given.
    pub(crate) name: Option<&'a str>,
    /// Its kind; `None` if there is no such kind.
    pub(crate) kind: Option<&'a Kind>,
    /// Where records that go round join the chain again.
    pub(crate) around: Option<&'a str>,
    /// How often a rejected answer is to be asked again.
    pub(crate) retries: u32,
}

impl<'a> Link<'a> {
    /// The name it goes by.
    pub(crate) fn name(&self) -> Option<&'a str> {
        self.name.or(self.kind.map(|kind| kind.name))
    }

    fn is(&self, kind: &str) -> bool {
        self.kind.is_some_and(|known| known.name == kind)
    }
}

/// One thing that is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub place: Place,
    /// What: lowercase, without a full stop.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// Another place that explains it, and what is to be said there.
    pub see: Option<(Place, String)>,
}

/// A place in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The chain as a whole.
    Chain,
    /// The fleet.
    Fleet,
    /// The stage of this number, from 0.
    Stage(usize),
    /// A key of the stage of this number.
    Key(usize, &'static str),
}

impl Fault {
    fn new(place: Place, message: impl Into<String>) -> Self {
        Fault { place, message: message.into(), help: None, see: None }
    }

    fn help(self, help: impl Into<String>) -> Self {
        Fault { help: Some(help.into()), ..self }
    }

    fn see(self, place: Place, text: impl Into<String>) -> Self {
        Fault { see: Some((place, text.into())), ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Chain => {}
            Place::Fleet => write!(f, "fleet: ")?,
            Place::Stage(index) => write!(f, "stage {}: ", index + 1)?,
            Place::Key(index, key) => write!(f, "stage {}, `{key}`: ", index + 1)?,
        }
        f.write_str(&self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

impl std::error::Error for Fault {}

/// Where `others` may lead besides a stage: out of the pipeline.
pub(crate) const DROP: &str = "drop";

/// Everything that is wrong with a chain, in no particular order. `fleet` says whether the plan has one.
pub(crate) fn faults(chain: &[Link<'_>], fleet: bool) -> Vec<Fault> {
    if chain.is_empty() {
        return vec![
            Fault::new(Place::Chain, "the pipeline has no stages")
                .help("add `[[stage]]` tables, from `kind = \"read\"` to `kind = \"sink\"`"),
        ];
    }
    let mut faults = Vec::new();
    ends(chain, &mut faults);
    names(chain, &mut faults);
    ways_round(chain, &mut faults);
    knowledge(chain, &mut faults);
    questions(chain, fleet, &mut faults);
    faults
}

/// `read` begins a chain and `sink` ends it, and they stand nowhere else.
fn ends(chain: &[Link<'_>], faults: &mut Vec<Fault>) {
    let is = |at: usize, kind: &str| chain.get(at).is_some_and(|link| link.is(kind));
    let last = chain.len().saturating_sub(1);
    for (kind, end, word, side) in [("read", 0, "first", "before"), ("sink", last, "last", "behind")] {
        let elsewhere: Vec<usize> = (0..chain.len()).filter(|&at| at != end && is(at, kind)).collect();
        for &at in &elsewhere {
            let fault = Fault::new(Place::Stage(at), format!("`{kind}` can only be the {word} stage"));
            let doubled = is(end, kind);
            faults.push(if doubled { fault.see(Place::Stage(end), format!("the {word} stage")) } else { fault });
        }
        let known = chain.get(end).is_some_and(|link| link.kind.is_some());
        if elsewhere.is_empty() && known && !is(end, kind) {
            let help = format!("put a `[[stage]]` with `kind = \"{kind}\"` {side} it");
            faults.push(Fault::new(Place::Stage(end), format!("the {word} stage must be `{kind}`")).help(help));
        }
    }
}

/// Names are words, and no two stages share one.
fn names(chain: &[Link<'_>], faults: &mut Vec<Fault>) {
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, link) in chain.iter().enumerate() {
        if let Some(name) = link.name.filter(|name| !is_name(name) || *name == DROP) {
            let message = format!("a stage cannot be called `{name}`");
            faults.push(Fault::new(Place::Key(at, "name"), message).help(NAME_HELP));
        }
        let Some(name) = link.name() else { continue };
        // A second `read` or `sink` is wrong under any name.
        if link.name.is_none() && (link.is("read") || link.is("sink")) && first.contains_key(name) {
            continue;
        }
        if let Some(&earlier) = first.get(name) {
            let place = if link.name.is_some() { Place::Key(at, "name") } else { Place::Stage(at) };
            let help = "a stage without `name` is called by its kind; give each its own, such as `name = \"second\"`";
            let fault = Fault::new(place, format!("two stages are called `{name}`")).help(help);
            faults.push(fault.see(Place::Stage(earlier), "the other one"));
        } else {
            first.insert(name, at);
        }
    }
}

/// What a name of a stage or pipeline may be.
pub(crate) const NAME_HELP: &str = "use letters, digits, `-` and `_`; `drop` is taken";

/// True if `name` can be the name of a stage or pipeline: it also names files.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 100 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Records go round to a later stage only: a line has no way back.
fn ways_round(chain: &[Link<'_>], faults: &mut Vec<Fault>) {
    for (at, link) in chain.iter().enumerate() {
        let Some(target) = link.around.filter(|target| *target != DROP) else { continue };
        let later = || chain.iter().skip(at + 1).filter_map(Link::name);
        if later().any(|name| name == target) {
            continue;
        }
        let place = Place::Key(at, "others");
        faults.push(match chain.iter().take(at + 1).position(|link| link.name() == Some(target)) {
            Some(back) => Fault::new(place, format!("`{target}` does not come after this stage"))
                .help("records can only go forward: name a later stage")
                .see(Place::Stage(back), "it is here"),
            None => {
                let fault = Fault::new(place, format!("there is no later stage `{target}`"));
                Fault { help: suggest(target, later().chain([DROP])), ..fault }
            }
        });
    }
}

/// Each stage needs something that an earlier one must have given.
fn knowledge(chain: &[Link<'_>], faults: &mut Vec<Fault>) {
    let mut known = vec![Knowledge::Row];
    for (at, link) in chain.iter().enumerate() {
        // A stage of unknown kind could give anything: behind it nothing can be said.
        let Some(kind) = link.kind else { return };
        for need in kind.needs.iter().filter(|need| !known.contains(need)) {
            let (thing, giver) = match need {
                Knowledge::Row => ("a row", "read"),
                Knowledge::Request => ("a request", "template"),
                Knowledge::Completion => ("a completion", "dispatch"),
                Knowledge::Verdict => ("a verdict", "validate"),
            };
            let message = format!("`{}` needs {thing}; no stage before it gives one", kind.name);
            faults.push(Fault::new(Place::Stage(at), message).help(format!("put a `{giver}` stage before it")));
        }
        // Said once: what is missing here is not complained about again further down.
        known.extend(kind.needs.iter().chain(kind.gives));
    }
}

/// Who asks servers needs a fleet, and what they answer needs a judge.
fn questions(chain: &[Link<'_>], fleet: bool, faults: &mut Vec<Fault>) {
    let complete = chain.iter().all(|link| link.kind.is_some());
    let mut asks = false;
    for (at, _) in chain.iter().enumerate().filter(|(_, link)| link.is("dispatch")) {
        let place = Place::Stage(at);
        asks = true;
        if !fleet {
            let help = "add a `[fleet]` table with `servers` and `model`";
            faults.push(Fault::new(place, "`dispatch` needs servers, and the file has no `[fleet]`").help(help));
        }
        let behind = || chain.iter().enumerate().skip(at + 1);
        if complete && !behind().any(|(_, link)| link.is("validate")) {
            let message = "answers would reach the sink unjudged: no `validate` follows `dispatch`";
            faults.push(Fault::new(place, message).help("put a `validate` stage behind it"));
        }
        let Some((judge, _)) = behind().find(|(_, link)| link.retries > 0) else { continue };
        for (between, link) in behind().take_while(|(index, _)| *index < judge) {
            if let Some(kind) = link.kind.filter(|kind| kind.moves_records || kind.name == "dispatch") {
                let message = format!("`{}` cannot stand between `dispatch` and a `validate` that retries", kind.name);
                let help = "an answer is judged before it leaves `dispatch`, by stages that look at one record at a \
                            time; take the `retry` away, or move this stage behind `validate`";
                faults.push(
                    Fault::new(Place::Stage(between), message).help(help).see(Place::Stage(judge), "this one retries"),
                );
            }
        }
    }
    if fleet && complete && !asks {
        let help = "take `[fleet]` away, or add a `dispatch` stage";
        faults.push(Fault::new(Place::Fleet, "there is a fleet, but no `dispatch` stage that asks it").help(help));
    }
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
