//! Answers that decline: told by how they begin, since an answer may well speak of refusals further on.

/// How English refusals begin, in small letters and with plain apostrophes. Each says on its own that the model will
/// not do it: "I can't help but wonder" and "I'm sorry to hear that" begin answers too.
const OPENINGS: &[&str] = &[
    "i can't assist with",
    "i can't comply with",
    "i can't fulfill",
    "i can't help with that",
    "i can't help with this",
    "i can't help you with",
    "i can't provide that",
    "i can't support",
    "i cannot assist with",
    "i cannot comply with",
    "i cannot fulfill",
    "i cannot help with that",
    "i cannot help with this",
    "i cannot help you with",
    "i cannot provide assistance",
    "i am not able to assist with",
    "i am not able to help with",
    "i am unable to assist",
    "i am unable to fulfill",
    "i am unable to help",
    "i won't be able to assist",
    "i won't be able to help",
    "i'm not able to assist with",
    "i'm not able to help with",
    "i'm unable to assist",
    "i'm unable to fulfill",
    "i'm unable to help",
    "i must decline",
    "i have to decline",
    "as an ai language model, i can't",
    "as an ai language model, i cannot",
    "as an ai language model, i am unable",
    "as an ai language model, i'm unable",
    "as an ai, i can't assist",
    "as an ai, i cannot assist",
];

/// What may stand before such an opening.
const COURTESIES: &[&str] = &[
    "i'm sorry, but ",
    "i am sorry, but ",
    "i'm really sorry, but ",
    "i'm very sorry, but ",
    "i apologize, but ",
    "sorry, but ",
    "unfortunately, ",
    "i'm sorry. ",
    "i'm sorry, ",
    "sorry, ",
];

/// The opening of a refusal that `answer` has: one of the known ones or one of `more`, which are compared without
/// regard to capitals, to the kind of apostrophe, and to marks and blanks before the first letter.
pub fn opening<'a>(answer: &str, more: &'a [String]) -> Option<&'a str> {
    let longest = more.iter().map(String::len).max().unwrap_or(0).max(200);
    // Only the beginning matters; small letters may have more bytes than capitals, so there is room to spare.
    let begin: String = answer.trim_start_matches(|c: char| !c.is_alphanumeric()).chars().take(longest).collect();
    let begin = plain(&begin);
    if let Some(own) = more.iter().find(|phrase| begin.starts_with(&plain(phrase))) {
        return Some(own);
    }
    let bare = COURTESIES.iter().find_map(|courtesy| begin.strip_prefix(courtesy)).unwrap_or(&begin);
    OPENINGS.iter().find(|opening| bare.starts_with(*opening)).copied()
}

/// Small letters, plain apostrophes, single blanks.
fn plain(text: &str) -> String {
    let text = text.to_lowercase().replace(['\u{2019}', '\u{02bc}'], "'");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_by_how_they_begin() {
        for text in [
            "I can't help with that.",
            "I\u{2019}m sorry, but I can\u{2019}t assist with that request.",
            "**I'm unable to  help** with this.",
            "Unfortunately, I cannot fulfill this request.",
            "As an AI language model, I cannot have opinions.",
        ] {
            let text = text.replace("**", "");
            assert!(opening(&text, &[]).is_some(), "{text}");
        }
    }

    #[test]
    fn answers_that_sound_alike_are_none() {
        for text in [
            "I can't help but wonder why the ship sailed.",
            "I'm sorry to hear that. Here is what you can do:",
            "Sorry, that was a typo: 12 and not 21.",
            "Unfortunately, the bridge was closed.",
            "\"I cannot\" has two words; \"I can't help with that\" has five.",
            "The model said: I can't assist with that.",
            "",
        ] {
            assert_eq!(opening(text, &[]), None, "{text}");
        }
    }

    #[test]
    fn more_phrases_are_compared_alike() {
        let more = ["Das kann ich nicht".to_owned()];
        assert_eq!(opening(" — das  KANN ich nicht beantworten.", &more), Some("Das kann ich nicht"));
        assert_eq!(opening("Das kann ich.", &more), None);
    }
}
