//! Numbers as people and models write them: `1,234.5`, `50%`, `3/4`, `\frac{3}{4}`, `1.2e-3`, `2 \times 10^{5}`.

use regex::Regex;

/// Finds numbers in texts.
pub struct Numbers {
    fraction: Regex,
    power: Regex,
    number: Regex,
}

/// A number, and whether a percent sign stood behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number {
    /// As it is written, without the percent sign.
    value: f64,
    percent: bool,
}

/// Two numbers are the same if they differ by no more than reading them does.
const TOLERANCE: f64 = 4.0 * f64::EPSILON;

impl Number {
    /// Whether both mean the same: 50% is 0.5, and also 50, since a field of percentages often leaves the sign out.
    pub fn same(self, other: Number) -> bool {
        let near = |one: f64, two: f64| (one - two).abs() <= TOLERANCE * one.abs().max(two.abs());
        near(self.value, other.value) || near(self.meant(), other.meant())
    }

    fn meant(self) -> f64 {
        if self.percent { self.value / 100.0 } else { self.value }
    }
}

impl Numbers {
    /// The error does not happen: the patterns are constants.
    pub fn new() -> Result<Self, regex::Error> {
        Ok(Numbers {
            fraction: Regex::new(r"\\[dt]?frac\s*\{\s*([^{}]+?)\s*\}\s*\{\s*([^{}]+?)\s*\}")?,
            power: Regex::new(r"\s*(?:\\times|\\cdot|×|\*)\s*10\s*\^\s*\{?\s*([-−+]?\d+)\s*\}?")?,
            number: Regex::new(
                r"[-−+]?\s?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?:\s?/\s?\d+(?:\.\d+)?)?(?:\s?\\?%)?|[-−+]?\.\d+",
            )?,
        })
    }

    /// The last number in `text`.
    pub fn last(&self, text: &str) -> Option<Number> {
        let plain = self.plain(text);
        let found = self.number.find_iter(&plain).last()?;
        let before = plain.get(..found.start()).and_then(|before| before.chars().next_back());
        read(found.as_str(), before)
    }

    /// The number that is all of `text`, but for blanks and signs of money.
    pub fn whole(&self, text: &str) -> Option<Number> {
        let plain = self.plain(text);
        let plain = plain.trim_matches(|c: char| c.is_whitespace() || "$€£¥".contains(c)).trim_end_matches('.');
        let found = self.number.find(plain)?;
        if found.as_str() == plain { read(plain, None) } else { None }
    }

    /// The text with fractions and powers of ten written in one line, and LaTeX's `{,}` as a comma.
    fn plain(&self, text: &str) -> String {
        let text = text.replace("{,}", ",").replace("\\!", "").replace("\\$", "$");
        let text = self.fraction.replace_all(&text, "$1/$2");
        self.power.replace_all(&text, "e$1").replace('−', "-")
    }
}

/// Reads what the pattern found. A minus right behind a letter or digit (`3-4`, `top-5`) is a dash.
fn read(text: &str, before: Option<char>) -> Option<Number> {
    let percent = text.ends_with('%');
    let text: String = text.chars().filter(|c| !c.is_whitespace() && !matches!(c, ',' | '%' | '\\')).collect();
    let dash = before.is_some_and(char::is_alphanumeric);
    let text = if dash { text.trim_start_matches(['-', '+']) } else { text.as_str() };
    let value = match text.split_once('/') {
        Some((above, below)) => above.parse::<f64>().ok()? / below.parse::<f64>().ok()?,
        None => text.parse::<f64>().ok()?,
    };
    value.is_finite().then_some(Number { value, percent })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(text: &str) -> Option<f64> {
        Numbers::new().expect("the patterns are right").last(text).map(|number| number.value)
    }

    #[test]
    fn the_last_number_is_found_however_it_is_written() {
        for (text, value) in [
            ("It is 42.", 42.0),
            ("first 3, then 1,234.5 apples", 1234.5),
            ("so x = -7", -7.0),
            ("so x = − 7", -7.0),
            ("pages 3-4", 4.0),
            ("about 3/4 of it", 0.75),
            (r"\(\dfrac{3}{4}\)", 0.75),
            ("1.2e-3 m", 0.0012),
            (r"2 \times 10^{5}", 200_000.0),
            ("2.5 * 10^3", 2500.0),
            (r"12{,}000", 12_000.0),
            (r"\$1,000", 1000.0),
            ("1, 2, 3", 3.0),
            ("50%", 50.0),
        ] {
            assert_eq!(last(text), Some(value), "{text}");
        }
        for text in ["no number", "", "1/0"] {
            assert_eq!(last(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_the_same_if_they_mean_the_same() {
        let numbers = Numbers::new().expect("the patterns are right");
        let same = |one: &str, two: &str| numbers.whole(one).expect(one).same(numbers.whole(two).expect(two));
        for (one, two) in [("0.5", "1/2"), ("1,000", "1000.00"), ("50%", "0.5"), ("50", "50 %"), ("1e3", "1000")] {
            assert!(same(one, two) && same(two, one), "{one} and {two}");
        }
        for (one, two) in [("0.333", "1/3"), ("50%", "5"), ("-1", "1"), ("12345678901234", "12345678901235")] {
            assert!(!same(one, two) && !same(two, one), "{one} and {two}");
        }
        assert_eq!(numbers.whole("42 apples"), None);
        assert_eq!(numbers.whole("x = 3"), None);
        assert!(numbers.whole("$1,234.").is_some());
    }
}
