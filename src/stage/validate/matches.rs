//! [`Matches`]: is the final answer the one the row names?

use super::number::{Number, Numbers};
use crate::record::{Reason, Rejection};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which field of the row holds the right answer, and how the two are compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Matches {
    /// The row's field with the right answer; dots lead into tables (`meta.gold`). Of a list, any element will do. In a
    /// text, what follows `####` or stands in the last `\boxed{…}` is taken, as GSM8K and MATH have it.
    pub field: String,
    /// How the two are compared.
    pub how: How,
}

/// How the final answer is found and compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// All of the answer, as a text; blanks do not count.
    Exact,
    /// The last number in the answer, as a number: `1,000` is `1e3`, `3/4` is `0.75`, `50%` is `0.5`.
    Numeric,
    /// What stands in the answer's last `\boxed{…}`: as a number if both are numbers, else as a text without blanks and
    /// without what LaTeX has only for looks.
    Boxed,
}

/// A [`Matches`] that is ready to compare.
pub struct Matcher {
    settings: Matches,
    numbers: Numbers,
}

impl Matcher {
    /// The error does not happen: the patterns are constants.
    pub fn new(settings: Matches) -> Result<Self, regex::Error> {
        Ok(Matcher { settings, numbers: Numbers::new()? })
    }

    /// Why `answer` is not the right one for `row`, if it is not.
    pub fn objection(&self, answer: &str, row: &[u8]) -> Option<Rejection> {
        let wanted = self.wanted(row);
        if wanted.is_empty() {
            let detail = format!("`{}` holds no text, number or truth value", self.settings.field);
            return Some(Rejection::new(Reason::NoReference, detail));
        }
        let given = match self.settings.how {
            How::Exact => Some(answer),
            How::Numeric => Some(boxed(answer).unwrap_or(answer)),
            How::Boxed => boxed(answer),
        };
        let Some(given) = given else {
            return Some(Rejection::new(Reason::WrongAnswer, "the answer has no `\\boxed{…}`"));
        };
        if wanted.iter().any(|wanted| self.same(given, wanted)) {
            return None;
        }
        let wanted = wanted.join("` or `");
        Some(Rejection::new(
            Reason::WrongAnswer,
            format!("`{wanted}` is wanted, the answer ends with `{}`", end(given)),
        ))
    }

    /// The right answers that the row names.
    fn wanted(&self, row: &[u8]) -> Vec<String> {
        let row: Value = serde_json::from_slice(row).unwrap_or_default();
        let found = self.settings.field.split('.').try_fold(&row, |value, key| value.get(key));
        let list = match found.or_else(|| row.get(&self.settings.field)) {
            Some(Value::Array(list)) => list.as_slice(),
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        list.iter().filter_map(text).filter(|text| !text.trim().is_empty()).collect()
    }

    fn same(&self, given: &str, wanted: &str) -> bool {
        let as_numbers = |given: Option<Number>, wanted: Option<Number>| {
            given.zip(wanted).is_some_and(|(given, wanted)| given.same(wanted))
        };
        match self.settings.how {
            How::Exact => blanks_even(given) == blanks_even(wanted),
            How::Numeric => as_numbers(self.numbers.last(given), self.numbers.last(wanted)),
            How::Boxed => {
                bare(given) == bare(wanted) || as_numbers(self.numbers.whole(given), self.numbers.whole(wanted))
            }
        }
    }
}

/// A right answer as a text: of a worked solution, its last line or box.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => {
            let last = text.rsplit_once("####").map_or(text.as_str(), |(_, after)| after);
            Some(boxed(last).unwrap_or(last).trim().to_owned())
        }
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// What stands in the last `\boxed{…}` (or `\fbox{…}`) whose braces are closed.
fn boxed(text: &str) -> Option<&str> {
    let starts = text.rmatch_indices("boxed").chain(text.rmatch_indices("\\fbox")).map(|(at, mark)| at + mark.len());
    starts.filter_map(|at| braced(text.get(at..)?.trim_start())).map(|(inside, _)| inside.trim()).next()
}

/// What stands between the brace `text` begins with and the one that closes it, and what follows.
fn braced(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('{')?;
    let mut depth = 0_usize;
    let mut escaped = false;
    for (at, letter) in inside.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' => depth += 1,
            '}' if depth == 0 => return Some((inside.get(..at)?, inside.get(at + 1..)?)),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn blanks_even(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A formula without blanks and without what is there only for looks.
fn bare(text: &str) -> String {
    const LOOKS: [&str; 12] = [
        "\\left",
        "\\right",
        "\\!",
        "\\,",
        "\\;",
        "\\:",
        "\\ ",
        "\\displaystyle",
        "^\\circ",
        "^{\\circ}",
        "\\(",
        "\\)",
    ];
    let mut text = text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").replace("{,}", ",");
    for look in LOOKS {
        text = text.replace(look, "");
    }
    for wrapper in ["\\text", "\\textbf", "\\mathrm", "\\mathbf"] {
        while let Some(shorter) = unwrapped(&text, wrapper) {
            text = shorter;
        }
    }
    let text: String = text.chars().filter(|c| !c.is_whitespace() && *c != '$').collect();
    text.trim_end_matches('.').to_owned()
}

/// The text with the first `wrapper{…}` in it replaced by what stands between its braces.
fn unwrapped(text: &str, wrapper: &str) -> Option<String> {
    let (before, _) = text.split_once(&format!("{wrapper}{{"))?;
    let (inside, rest) = braced(text.get(before.len() + wrapper.len()..)?)?;
    Some(format!("{before}{inside}{rest}"))
}

/// The last characters of a text, enough to see what it comes to.
fn end(text: &str) -> String {
    const CHARS: usize = 60;
    let text = text.trim();
    let skipped = text.chars().count().saturating_sub(CHARS);
    let end: String = text.chars().skip(skipped).collect();
    if skipped > 0 { format!("…{end}") } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objection(how: How, field: &str, answer: &str, row: &str) -> Option<Reason> {
        let matcher = Matcher::new(Matches { field: field.to_owned(), how }).expect("the patterns are right");
        matcher.objection(answer, row.as_bytes()).map(|rejection| rejection.reason)
    }

    #[test]
    fn a_box_is_read_with_the_braces_in_it() {
        assert_eq!(boxed(r"so \boxed{\frac{1}{2}} and \boxed{\text{a \{ b}}."), Some(r"\text{a \{ b}"));
        assert_eq!(boxed(r"first \boxed{1}, then \boxed{2"), Some("1"));
        assert_eq!(boxed("a boxed set"), None);
    }

    #[test]
    fn formulas_are_compared_without_what_is_there_for_looks() {
        for (given, wanted) in [
            (r"\boxed{\dfrac{1}{2}}", r"\frac{1}{2}"),
            (r"\boxed{ \left( 3, \frac{\pi}{2} \right) }", r"(3,\frac{\pi}{2})"),
            (r"\boxed{\text{Monday}}", "Monday"),
            (r"\boxed{0.50}", r"A half. #### \frac{1}{2}"),
            (r"\boxed{45^\circ}", "45"),
            (r"\boxed{12{,}000}", "12000"),
        ] {
            let row = serde_json::json!({ "gold": wanted }).to_string();
            assert_eq!(objection(How::Boxed, "gold", given, &row), None, "{given}");
        }
        assert_eq!(objection(How::Boxed, "gold", r"\boxed{3}", r#"{"gold":"4"}"#), Some(Reason::WrongAnswer));
        assert_eq!(objection(How::Boxed, "gold", "It is 4.", r#"{"gold":"4"}"#), Some(Reason::WrongAnswer));
    }

    #[test]
    fn the_last_number_is_compared_as_a_number() {
        let row = "{\"meta\":{\"gold\":\"Half of 144 is 72.\\n#### 72\"}}";
        assert_eq!(objection(How::Numeric, "meta.gold", "She sold **72** clips", row), None);
        assert_eq!(objection(How::Numeric, "meta.gold", "From 72 she has 70.", row), Some(Reason::WrongAnswer));
        assert_eq!(objection(How::Numeric, "n", "It is 1,000.0", r#"{"n":1e3}"#), None);
        assert_eq!(objection(How::Numeric, "n", r"\boxed{7} in 3 steps", r#"{"n":7}"#), None);
    }

    #[test]
    fn a_whole_answer_is_compared_as_a_text() {
        assert_eq!(objection(How::Exact, "label", " yes\n", r#"{"label":["no","yes"]}"#), None);
        assert_eq!(objection(How::Exact, "label", "Yes, it is", r#"{"label":"yes"}"#), Some(Reason::WrongAnswer));
        assert_eq!(objection(How::Exact, "a.b", "x", r#"{"a.b":"x"}"#), None);
    }

    #[test]
    fn a_row_that_names_no_answer_is_the_rows_trouble() {
        for row in [r#"{"a":1}"#, r#"{"gold":null}"#, r#"{"gold":{"x":1}}"#, r#"{"gold":" "}"#, "no row"] {
            assert_eq!(objection(How::Exact, "gold", "x", row), Some(Reason::NoReference), "{row}");
        }
    }
}
