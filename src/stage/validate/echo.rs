//! Answers that are the prompt again.

/// Prompts with fewer letters and digits are not looked at: "Hello" is a good answer to "Hello".
const LETTERS: usize = 20;

/// What an answer may have besides the prompt, as a share of the prompt's letters, and still be nothing else.
const MORE: f64 = 0.15;

/// Whether `answer` is nothing but `prompt` again, capitals, blanks and marks not counted.
pub fn is_echo(answer: &str, prompt: &str) -> bool {
    let prompt = letters(prompt);
    let count = prompt.chars().count();
    if count < LETTERS {
        return false;
    }
    let answer = letters(answer);
    let beyond = answer.chars().count().saturating_sub(count);
    beyond as f64 <= count as f64 * MORE && answer.contains(&prompt)
}

/// The letters and digits of a text, in small letters.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: &str = "What is the boiling point of water at sea level?";

    #[test]
    fn the_prompt_again_is_an_echo_also_with_other_blanks_and_a_word_before() {
        assert!(is_echo(PROMPT, PROMPT));
        assert!(is_echo("User: what is the\nboiling point of water at sea level", PROMPT));
    }

    #[test]
    fn an_answer_that_repeats_the_prompt_and_goes_on_is_none() {
        assert!(!is_echo(&format!("{PROMPT} It is 100 °C."), PROMPT));
        assert!(!is_echo("The boiling point of water at sea level is 100 °C.", PROMPT));
    }

    #[test]
    fn short_prompts_may_be_answered_alike() {
        assert!(!is_echo("Hello!", "Hello"));
        assert!(!is_echo("", ""));
    }
}
