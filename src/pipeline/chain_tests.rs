use super::*;
use Knowledge::{Completion, Request, Row, Verdict};
use serde::de::Error as _;

static KINDS: [Kind; 7] = [
    kind("read", &[], &[Row], true),
    kind("filter", &[Row], &[], false),
    kind("template", &[Row], &[Request], false),
    kind("dispatch", &[Request], &[Completion], true),
    kind("dedup", &[Row], &[], true),
    kind("validate", &[Completion], &[Verdict], false),
    kind("sink", &[Row], &[], true),
];

/// A kind of which only the place in a chain matters.
const fn kind(
    name: &'static str,
    needs: &'static [Knowledge],
    gives: &'static [Knowledge],
    moves_records: bool,
) -> Kind {
    Kind {
        name,
        needs,
        gives,
        moves_records,
        example: "",
        schema: |_| schemars::Schema::default(),
        decode: |_| Err(toml::de::Error::custom("never read")),
    }
}

/// The links of `"read filter sink"`; a word that is no kind is a stage of unknown kind.
fn chain(words: &str) -> Vec<Link<'static>> {
    words
        .split_whitespace()
        .map(|word| Link { kind: KINDS.iter().find(|kind| kind.name == word), ..Link::default() })
        .collect()
}

fn said(chain: &[Link<'_>], fleet: bool) -> Vec<String> {
    faults(chain, fleet).iter().map(ToString::to_string).collect()
}

/// Asserts that a chain has exactly one fault, which holds `text`.
fn one(chain: &[Link<'_>], fleet: bool, text: &str) {
    let said = said(chain, fleet);
    assert!(said.len() == 1 && said[0].contains(text), "{said:?} is not the one fault {text:?}");
}

#[test]
fn whole_chains_have_no_fault() {
    assert_eq!(said(&chain("read sink"), false), [""; 0]);
    assert_eq!(said(&chain("read filter template dispatch validate sink"), true), [""; 0]);
}

#[test]
fn a_chain_begins_with_read_and_ends_with_sink() {
    one(&[], false, "no stages");
    one(&chain("filter sink"), false, "stage 1: the first stage must be `read`");
    one(&chain("read filter"), false, "stage 2: the last stage must be `sink`");
    one(&chain("filter read sink"), false, "stage 2: `read` can only be the first stage");
    one(&chain("read sink filter"), false, "stage 2: `sink` can only be the last stage");
    one(&chain("read read sink"), false, "stage 2");
}

#[test]
fn two_of_one_kind_need_names() {
    let mut links = chain("read filter filter sink");
    one(&links, false, "stage 3: two stages are called `filter`");
    links[2].name = Some("second");
    assert_eq!(said(&links, false), [""; 0]);
    links[1].name = Some("second");
    one(&links, false, "stage 3, `name`: two stages are called `second`");
    links[1].name = Some("../x");
    one(&links, false, "stage 2, `name`: a stage cannot be called `../x`");
    links[1].name = Some("drop");
    one(&links, false, "`drop` is taken");
}

#[test]
fn records_go_round_to_a_later_stage_only() {
    let mut links = chain("read filter dedup sink");
    for (target, complaint) in [
        ("sinc", "stage 2, `others`: there is no later stage `sinc`; did you mean `sink`?"),
        ("read", "`read` does not come after this stage"),
        ("filter", "`filter` does not come after this stage"),
    ] {
        links[1].around = Some(target);
        one(&links, false, complaint);
    }
    for target in ["sink", "dedup", "drop"] {
        links[1].around = Some(target);
        assert_eq!(said(&links, false), [""; 0], "{target}");
    }
}

#[test]
fn what_a_stage_needs_an_earlier_one_gives() {
    one(&chain("read validate sink"), false, "stage 2: `validate` needs a completion; no stage before it gives one");
    one(&chain("read dispatch validate template sink"), true, "`dispatch` needs a request");
}

#[test]
fn behind_a_stage_of_unknown_kind_nothing_is_guessed() {
    assert_eq!(said(&chain("read templat dispatch validade sink"), true), [""; 0]);
    assert_eq!(said(&chain("raed sinc"), true), [""; 0]);
}

#[test]
fn answers_are_judged_before_they_reach_the_sink() {
    one(&chain("read template dispatch sink"), true, "unjudged");
}

#[test]
fn who_asks_needs_a_fleet_and_a_fleet_needs_to_be_asked() {
    one(&chain("read template dispatch validate sink"), false, "has no `[fleet]`");
    one(&chain("read sink"), true, "fleet: there is a fleet, but no `dispatch`");
}

#[test]
fn only_transforms_stand_between_dispatch_and_a_validate_that_retries() {
    let mut links = chain("read template dispatch filter dedup validate sink");
    assert_eq!(said(&links, true), [""; 0]);
    links[5].retries = 2;
    one(&links, true, "stage 5: `dedup` cannot stand between `dispatch` and a `validate` that retries");
}
