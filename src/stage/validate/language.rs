//! Is the answer in the right language?

use crate::record::{Reason, Rejection};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whatlang::Lang;

/// Which language an answer is to be in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Language {
    /// `"as_prompt"`: the one the prompt is in.
    AsPrompt(AsPrompt),
    /// Any of these, as ISO 639 codes: `["en", "de"]`.
    Any(Vec<String>),
}

/// The word for [`Language::AsPrompt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AsPrompt {
    /// The language of the prompt.
    #[serde(rename = "as_prompt")]
    AsPrompt,
}

/// Fewer letters than this say nothing of a language.
const LEAST_LETTERS: usize = 60;
/// What stands further behind is not looked at: the language shows early, and looking costs 0.1 ms per kB.
const MOST_BYTES: usize = 2_000;

/// A [`Language`] ready to be held against answers.
pub enum Wanted {
    AsPrompt,
    Any(Vec<Lang>),
}

impl Wanted {
    /// # Errors
    /// A sentence that names the code nobody knows.
    pub fn new(settings: &Language) -> Result<Self, String> {
        match settings {
            Language::AsPrompt(_) => Ok(Wanted::AsPrompt),
            Language::Any(codes) if codes.is_empty() => Err("no language is named".to_owned()),
            Language::Any(codes) => codes.iter().map(|code| from_code(code)).collect::<Result<_, _>>().map(Wanted::Any),
        }
    }

    /// Why `answer` is in the wrong language, if it plainly is. What is too short to tell passes.
    pub fn objection(&self, answer: &str, prompt: impl FnOnce() -> Option<String>) -> Option<Rejection> {
        let found = language(answer)?;
        let (fits, wanted) = match self {
            Wanted::Any(wanted) => {
                let names: Vec<_> = wanted.iter().map(|lang| lang.eng_name()).collect();
                (wanted.contains(&found), names.join(" or "))
            }
            Wanted::AsPrompt => {
                let wanted = language(&prompt()?)?;
                (wanted == found, format!("{}, as the prompt is", wanted.eng_name()))
            }
        };
        let detail = || format!("it is in {}, not in {wanted}", found.eng_name());
        (!fits).then(|| Rejection::new(Reason::WrongLanguage, detail()))
    }
}

fn from_code(code: &str) -> Result<Lang, String> {
    let three = isolang::Language::from_639_1(code).map_or(code, |language| language.to_639_3());
    // The two letters stand for a family of languages, of which whatlang knows the one that most texts are in.
    let three = match three {
        "zho" => "cmn",
        "fas" => "pes",
        "nor" => "nob",
        other => other,
    };
    Lang::from_code(three).ok_or_else(|| {
        let known: Vec<_> = Lang::all().iter().map(|lang| lang.code()).collect();
        format!("no language `{code}` can be told; write an ISO 639 code, two letters or one of {}", known.join(", "))
    })
}

/// The language of `text`, if there is no doubt of it. Blocks of code are no text.
fn language(text: &str) -> Option<Lang> {
    let mut prose = String::new();
    for (index, part) in text.split("```").enumerate() {
        if index % 2 == 0 {
            prose.push_str(part);
        }
        if prose.len() > MOST_BYTES {
            break;
        }
    }
    let end = (0..=MOST_BYTES.min(prose.len())).rev().find(|&at| prose.is_char_boundary(at)).unwrap_or(0);
    prose.truncate(end);
    // A syllable or word is one letter in some scripts, so bytes stand for letters there.
    let letters = prose.chars().filter(|c| c.is_alphabetic()).map(|c| if c.is_ascii() { 1 } else { c.len_utf8() });
    if letters.sum::<usize>() < LEAST_LETTERS {
        return None;
    }
    whatlang::detect(&prose).filter(whatlang::Info::is_reliable).map(|info| info.lang())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGLISH: &str =
        "The water is held above the turbine until the gates open, and then it falls with all its weight.";
    const GERMAN: &str =
        "Das Wasser wird oberhalb der Turbine gehalten, bis sich die Tore öffnen, und stürzt dann hinab.";
    const CHINESE: &str = "水在涡轮机上方被拦住,直到闸门打开,然后以全部的重量落下。这就是水电站的工作原理,非常简单。";

    fn reason(wanted: &[&str], answer: &str, prompt: &str) -> Option<Reason> {
        let settings = match wanted {
            ["as_prompt"] => Language::AsPrompt(AsPrompt::AsPrompt),
            codes => Language::Any(codes.iter().map(|&code| code.to_owned()).collect()),
        };
        let wanted = Wanted::new(&settings).expect("known codes");
        wanted.objection(answer, || Some(prompt.to_owned())).map(|rejection| rejection.reason)
    }

    #[test]
    fn an_answer_in_another_language_is_found() {
        let wrong = Some(Reason::WrongLanguage);
        assert_eq!(reason(&["en"], ENGLISH, ""), None);
        assert_eq!(reason(&["en"], GERMAN, ""), wrong);
        assert_eq!(reason(&["en", "de"], GERMAN, ""), None);
        assert_eq!(reason(&["deu"], CHINESE, ""), wrong);
        assert_eq!(reason(&["zh"], CHINESE, ""), None);
        assert_eq!(reason(&["as_prompt"], CHINESE, ENGLISH), wrong);
        assert_eq!(reason(&["as_prompt"], GERMAN, GERMAN), None);
    }

    #[test]
    fn what_cannot_be_told_passes() {
        for answer in ["", "42", "Ja, genau.", "x = 1; y = 2; z = x + y; print(z)", "$$\\int_0^1 x^2 dx = \\frac13$$"] {
            assert_eq!(reason(&["en"], answer, ""), None, "{answer}");
        }
        let code = format!("{ENGLISH}\n```python\nfür_jeden = lambda wörter: [wort.größe() for wort in wörter]\n```\n");
        assert_eq!(reason(&["en"], &code, ""), None);
        assert_eq!(reason(&["as_prompt"], GERMAN, "2 + 2?"), None);
    }

    #[test]
    fn a_code_nobody_knows_is_told() {
        let Err(message) = Wanted::new(&Language::Any(vec!["english".to_owned()])) else { panic!("no such code") };
        assert!(message.contains("`english`") && message.contains("deu"), "{message}");
        assert!(Wanted::new(&Language::Any(Vec::new())).is_err());
    }
}
