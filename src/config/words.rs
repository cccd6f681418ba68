//! The page of words: every reason a row can be set aside for, what it means, and what happens to such a row, from the
//! code that decides it.

use crate::{
    fleet::retry::{Policy, Trouble, may_differ, policy},
    record::{Family, Reason},
    stage::rules_against,
};

/// The reference of words in Markdown.
pub fn words() -> String {
    let mut page = String::from(
        "# The words for \"why not\"\n\n\
         This page is written by `forebay schema --words` from the program itself.\n\n\
         Each row that does not end in the output is set aside with one of these words: in `aside/`, in `summary.json`, \
         on the screen. The word is the same everywhere and in every version; `expect` of a `[[test]]` takes it too.\n",
    );
    for (family, title, about) in FAMILIES {
        page.push_str(&format!("\n## {title}\n\n{about}\n\n| word | meaning | what happens |\n|---|---|---|\n"));
        for reason in Reason::ALL.iter().filter(|reason| reason.family() == *family) {
            page.push_str(&format!("| `{reason}` | {} | {} |\n", reason.sentence(), what_happens(*reason)));
        }
    }
    page
}

/// Each family, as a heading, and whose trouble it is.
const FAMILIES: &[(Family, &str, &str)] = &[
    (Family::Input, "Lines that are no rows", "The trouble of the input file. Counted under `bad_input`."),
    (Family::Row, "Rows that cannot be asked about", "The trouble of the row. Counted under `rejected`."),
    (
        Family::Answer,
        "Answers that are not good enough",
        "The trouble of the answer; `validate` decides. Counted under `rejected`. With `on_reject = { retry = 2 }` such \
         a row is asked again where that may help.",
    ),
    (
        Family::Reply,
        "Replies that are no answers",
        "The trouble of a server. Counted under `failed`, once all that is said here was of no avail.",
    ),
];

/// What is done with a row that meets this word, in the order of the chain: by the servers' side, then by the rules.
fn what_happens(reason: Reason) -> String {
    match policy(reason) {
        Policy::Judge => {
            let rules: Vec<_> = rules_against(reason).iter().map(|rule| format!("`{rule}`")).collect();
            let then = if may_differ(reason) { "asked again if `on_reject` says so" } else { "never asked again" };
            format!("looked for by {}; {then}", rules.join(" or "))
        }
        Policy::Reject => match rules_against(reason).first() {
            Some(rule) => format!("looked for by `{rule}`; set aside"),
            None => "set aside at once".to_owned(),
        },
        Policy::RetryRecord => "asked again; set aside when `tries` of `dispatch` are used up".to_owned(),
        Policy::RetryElsewhere { server } => {
            let server = match server {
                Trouble::Busy => {
                    return "the server gets a rest; the row goes to another, as often as needed".to_owned();
                }
                Trouble::Failing => "gets a rest, and is down if it goes on so",
                Trouble::Down => "is down until it answers a probe",
                Trouble::Unusable => "gets nothing until it answers a probe as it should",
            };
            format!("the server {server}; the row goes to another, up to `moves` of `dispatch` times")
        }
        Policy::Local => "the row is asked again; no server is blamed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_stands_on_the_page_once() {
        let page = words();
        for reason in Reason::ALL {
            assert_eq!(page.matches(&format!("\n| `{reason}` |")).count(), 1, "{reason}");
        }
    }

    #[test]
    fn every_trouble_of_an_answer_has_a_rule_that_looks_for_it() {
        for reason in Reason::ALL {
            let looked_for = !rules_against(*reason).is_empty();
            assert_eq!(looked_for, reason.family() == Family::Answer || *reason == Reason::NoReference, "{reason}");
        }
    }
}
