//! How a pipeline file becomes a plan, or a list of complaints.
//!
//! The text is parsed into a table that knows where everything was said; arguments of `--set` and environment
//! variables are put in; each table is held against the schema of its settings type and decoded; and the plan looks
//! at the chain. Nobody below this module knows TOML.

mod case;
mod head;
mod overrides;
mod reference;
mod settings;
mod shape;
mod starter;
mod text;
mod words;

pub(crate) use reference::settings_beyond_defaults;
pub use reference::{reference, schema};
pub use starter::starter;
pub use words::words;

use crate::{
    diagnostic::{Diagnostic, Diagnostics, Sources, nearest, suggest},
    fleet::FleetSettings,
    pipeline::{Draft, DraftStage, Fault, Link, Place, Plan, faults},
    setting::Complaints,
    stage::{AnySettings, Judge, Kind, Kinds},
};
use case::Case;
use head::{COMMON, Common, HEAD, Head};
use overrides::Override;
use serde::Deserialize;
use settings::{Findings, decode, locate, placed};
use shape::Type;
use std::ops::Range;
use text::{Table, Value};
use toml::{Spanned, de::DeValue};

/// Reads the text of a pipeline file into a plan, or says everything that is wrong with it in one go.
///
/// `file_name` is only used to speak of the file. Each of `overrides` is an argument of `--set`, `key.path=value`.
/// A text that is no TOML is alone among its diagnostics: nothing can be said about the rest.
pub fn load(text: &str, file_name: &str, overrides: &[String], kinds: &Kinds) -> Result<Plan, Diagnostics> {
    let mut sources = Sources::default();
    sources.add(file_name, text);
    let mut findings = Findings::default();
    let mut arguments = Vec::new();
    for argument in overrides {
        match Override::new(&mut sources, argument) {
            Ok(argument) => arguments.push(argument),
            Err(diagnostic) => findings.list.push(diagnostic),
        }
    }
    let plan = match text::parse(&mut sources, text) {
        Ok(mut table) => {
            let failed = arguments.iter().filter_map(|argument| argument.apply(&mut table).err());
            findings.list.extend(failed);
            let environment = |name: &str| std::env::var(name).ok();
            let unfilled = text::substitute(&mut table, &sources, &environment, &mut findings.list);
            let said = findings.list.len();
            let plan = file(table, kinds, &mut findings);
            // What else is wrong with a value that could not be filled in is no news.
            let news = findings.list.split_off(said);
            let known =
                |one: &Diagnostic| one.labels.iter().any(|label| label.primary && unfilled.contains(&label.span));
            findings.list.extend(news.into_iter().filter(|one| !known(one)));
            plan
        }
        Err(diagnostic) => {
            findings.list.push(diagnostic);
            None
        }
    };
    match plan {
        Some(plan) if findings.list.is_empty() => Ok(plan),
        _ => {
            findings.hide.into_iter().for_each(|span| sources.hide(span));
            Err(Diagnostics::new(sources, findings.list))
        }
    }
}

/// One `[[stage]]` table, as far as it could be read.
struct Read<'t> {
    /// Where to point when speaking of the stage as a whole.
    span: Range<usize>,
    table: Table<'t>,
    kind: Option<Kind>,
    common: Option<Common>,
    settings: Option<Box<dyn AnySettings>>,
}

/// The whole file: its head, its fleet, its stages, and the chain they make.
fn file(mut table: Table<'_>, kinds: &Kinds, findings: &mut Findings) -> Option<Plan> {
    let fleet = table.remove("fleet");
    let stages = tables("stage", table.remove("stage"), findings);
    let cases = tables("test", table.remove("test"), findings).unwrap_or_default();

    let place = settings::Place { what: "the pipeline file", span: 0..0, also: &["fleet", "stage", "test"] };
    let head = section(&table, &Type::of::<Head>(), &place, findings, |value| Head::deserialize(value), Head::check);

    let fleet_span = fleet.as_ref().map(Spanned::span);
    let fleet_settings = fleet.and_then(|value| fleet_section(value, findings));

    let stages: Option<Vec<Read<'_>>> =
        stages.map(|list| list.into_iter().map(|value| stage_section(value, kinds, findings)).collect());
    let links: Vec<Link<'_>> = stages.iter().flatten().map(Read::link).collect();
    // What a misspelt key was meant to say is not complained about as missing.
    let meant = |word: &str| table.keys().any(|key| nearest(key.get_ref(), HEAD.iter().copied()) == Some(word));
    if stages.is_some() && !meant("stage") {
        let found = faults(&links, fleet_span.is_some() || meant("fleet"));
        findings.list.extend(found.into_iter().map(|fault| located(fault, stages.as_deref(), fleet_span.as_ref())));
    }
    let cases: Vec<_> = cases.into_iter().filter_map(|value| case_section(value, findings)).collect();
    if findings.list.is_empty() {
        findings.list.extend(failing(&cases, stages.as_deref().unwrap_or_default()));
    }
    if !findings.list.is_empty() {
        return None;
    }

    let head = head?;
    let memory = head.memory_bytes()?;
    let run = head.run.unwrap_or_else(|| format!("runs/{}", head.name));
    let stages = stages?.into_iter().map(Read::draft).collect::<Option<Vec<_>>>()?;
    let draft = Draft { name: head.name, run, seed: head.seed, memory, fleet: fleet_settings, stages };
    draft.check().ok().map(|plan| Plan { tests: cases.len(), ..plan })
}

/// The list under `[[stage]]` or `[[test]]`; an absent one is an empty one.
fn tables<'t>(name: &str, value: Option<Value<'t>>, findings: &mut Findings) -> Option<Vec<Value<'t>>> {
    let Some(value) = value else { return Some(Vec::new()) };
    let span = value.span();
    let help = format!("each {name} is a table of its own that begins with `[[{name}]]`, in two pairs of brackets");
    match value.into_inner() {
        DeValue::Array(list) if list.iter().all(|item| item.get_ref().is_table()) => Some(list.into_iter().collect()),
        _ => {
            findings.list.push(Diagnostic::new(format!("`{name}` must be a list of tables"), span, "").help(help));
            None
        }
    }
}

fn fleet_section(value: Value<'_>, findings: &mut Findings) -> Option<FleetSettings> {
    let span = value.span();
    let DeValue::Table(table) = value.into_inner() else {
        findings.list.push(Diagnostic::new("`fleet` must be a table", span, "").help("begin it with `[fleet]`"));
        return None;
    };
    let place = settings::Place { what: "`[fleet]`", span, also: &[] };
    let read = |value: toml::de::ValueDeserializer<'_>| FleetSettings::deserialize(value);
    section(&table, &Type::of::<FleetSettings>(), &place, findings, read, FleetSettings::check)
}

/// One `[[test]]` table that could be read, and where it stands.
struct Tested<'t> {
    case: Case,
    table: Table<'t>,
    span: Range<usize>,
}

fn case_section<'t>(value: Value<'t>, findings: &mut Findings) -> Option<Tested<'t>> {
    let span = value.span();
    let DeValue::Table(table) = value.into_inner() else { return None };
    let place = settings::Place { what: "`[[test]]`", span: span.clone(), also: &[] };
    let read = |value: toml::de::ValueDeserializer<'_>| Case::deserialize(value);
    let case = section(&table, &Type::of::<Case>(), &place, findings, read, Case::check)?;
    Some(Tested { case, table, span })
}

/// What the tests of the file find wrong with the stages that judge.
fn failing(cases: &[Tested<'_>], stages: &[Read<'_>]) -> Vec<Diagnostic> {
    let Some(first) = cases.first() else { return Vec::new() };
    let mut judging = Vec::new();
    for stage in stages {
        match stage.settings.as_ref().map(|settings| settings.judges()) {
            Some(Ok(Some(transform))) => judging.push((transform, 1)),
            Some(Err(error)) => return vec![Diagnostic::new(error.to_string(), stage.span.clone(), "")],
            Some(Ok(None)) | None => {}
        }
    }
    if judging.is_empty() {
        let help = "add a `validate` stage, or leave the test out";
        return vec![Diagnostic::new("no stage judges answers", first.span.clone(), "").help(help)];
    }
    let judge = Judge::new(judging);
    cases.iter().filter_map(|tested| tested.case.try_on(&judge, &tested.table, &tested.span)).collect()
}

fn stage_section<'t>(value: Value<'t>, kinds: &Kinds, findings: &mut Findings) -> Read<'t> {
    let header = value.span();
    let DeValue::Table(table) = value.into_inner() else {
        return Read { span: header, table: Table::new(), kind: None, common: None, settings: None };
    };
    let span = table.get("kind").map_or(header, Spanned::span);
    let kind = match kind_of(&table, &span, kinds) {
        Ok(kind) => Some(kind),
        Err(diagnostic) => {
            findings.list.push(diagnostic);
            None
        }
    };
    let mut own = table.clone();
    own.remove("kind");
    let (common, own): (Table<'t>, Table<'t>) =
        own.into_iter().partition(|(key, _)| COMMON.contains(&key.get_ref().as_ref()));
    let place = settings::Place { what: "the stage", span: span.clone(), also: &[] };
    let read = |value: toml::de::ValueDeserializer<'_>| Common::deserialize(value);
    let common = section(&common, &Type::of::<Common>(), &place, findings, read, |_, _| {});
    let settings = kind.and_then(|kind| {
        let what = format!("`{}`", kind.name);
        let place = settings::Place { what: &what, span: span.clone(), also: COMMON };
        section(&own, &Type::of_kind(&kind), &place, findings, kind.decode, |settings, say| settings.check(say))
    });
    Read { span, table, kind, common, settings }
}

/// The kind that a stage's table names, or why it names none.
fn kind_of(table: &Table<'_>, span: &Range<usize>, kinds: &Kinds) -> Result<Kind, Diagnostic> {
    let names = || kinds.iter().map(|kind| kind.name);
    let known = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let Some(value) = table.get("kind") else {
        let typo = table.keys().find(|key| nearest(key.get_ref(), ["kind"]).is_some());
        let (span, help) = match typo {
            Some(key) => (key.span(), "did you mean `kind`?".to_owned()),
            None => (span.clone(), format!("add `kind`, one of {known}")),
        };
        return Err(Diagnostic::new("the stage has no `kind`", span, "").help(help));
    };
    let Some(word) = value.get_ref().as_str() else {
        return Err(Diagnostic::new(format!("`kind` must be one of {known}"), span.clone(), ""));
    };
    kinds.get(word).copied().ok_or_else(|| {
        let message = format!("there is no kind of stage `{word}`");
        Diagnostic::new(message, span.clone(), "").maybe_help(suggest(word, names()))
    })
}

/// Holds a table against its schema; where that finds nothing, decodes and checks it.
fn section<T>(
    table: &Table<'_>,
    schema: &Type,
    place: &settings::Place<'_>,
    findings: &mut Findings,
    read: impl FnOnce(toml::de::ValueDeserializer<'_>) -> Result<T, toml::de::Error>,
    check: impl FnOnce(&T, &mut Complaints),
) -> Option<T> {
    let before = findings.list.len();
    findings.table(table, schema.shape(), place);
    if findings.list.len() > before {
        return None;
    }
    match decode(table.clone(), place.span.clone(), read) {
        Ok(settings) => {
            let mut complaints = Complaints::default();
            check(&settings, &mut complaints);
            findings.list.extend(placed(complaints, table, &place.span));
            Some(settings)
        }
        Err(diagnostic) => {
            findings.list.push(diagnostic);
            None
        }
    }
}

impl Read<'_> {
    fn link(&self) -> Link<'_> {
        Link {
            name: self.table.get("name").and_then(|value| value.get_ref().as_str()),
            kind: self.kind.as_ref(),
            around: self.settings.as_ref().and_then(|settings| settings.around()),
            retries: self.settings.as_ref().map_or(0, |settings| settings.retries()),
        }
    }

    fn draft(self) -> Option<DraftStage> {
        let common = self.common?;
        Some(DraftStage {
            name: common.name,
            kind: self.kind?,
            workers: usize::try_from(common.workers.get()).ok()?,
            capacity: usize::try_from(common.capacity.get()).ok()?,
            settings: self.settings?,
        })
    }
}

/// A fault of the chain, at its place in the file.
fn located(fault: Fault, stages: Option<&[Read<'_>]>, fleet: Option<&Range<usize>>) -> Diagnostic {
    let stage = |index: usize| stages.and_then(|list| list.get(index));
    let span = |place: Place| match place {
        Place::Chain => 0..0,
        Place::Fleet => fleet.cloned().unwrap_or(0..0),
        Place::Stage(index) => stage(index).map_or(0..0, |read| read.span.clone()),
        Place::Key(index, key) => {
            stage(index).map_or(0..0, |read| locate(&read.table, key).unwrap_or_else(|| read.span.clone()))
        }
    };
    let diagnostic = Diagnostic::new(fault.message, span(fault.place), "").maybe_help(fault.help);
    match fault.see {
        Some((place, text)) => diagnostic.see(span(place), text),
        None => diagnostic,
    }
}
