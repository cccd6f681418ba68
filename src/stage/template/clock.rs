//! The date as templates ask for it: `strftime_now("%d %b %Y")`.
//!
//! The moment is fixed when the stage is built, in UTC: every prompt of one start of a run says the same.

use std::fmt::Write as _;

/// A moment, in the parts people say.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Days since 1970-01-01.
    days: i64,
    /// Seconds since midnight.
    second: i64,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// 1970-01-01 was a Thursday.
const WEEKDAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

impl Moment {
    /// Now.
    pub fn now() -> Self {
        Moment::at(i64::try_from(crate::clock::unix_ms() / 1_000).unwrap_or(0))
    }

    /// `seconds` after the beginning of 1970.
    pub fn at(seconds: i64) -> Self {
        Moment { days: seconds.div_euclid(86_400), second: seconds.rem_euclid(86_400) }
    }

    /// The moment in the words of C's `strftime`, English names; the error names a letter it does not know.
    pub fn format(self, pattern: &str) -> Result<String, String> {
        let (year, month, day) = self.date();
        let month_name = MONTHS.get(month as usize - 1).copied().unwrap_or_default();
        let weekday = WEEKDAYS.get(self.days.rem_euclid(7) as usize).copied().unwrap_or_default();
        let (hour, minute) = (self.second / 3_600, self.second / 60 % 60);
        let hour12 = (hour + 11) % 12 + 1;
        let mut text = String::new();
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                text.push(letter);
                continue;
            }
            let mut word = letters.next();
            let bare = word == Some('-');
            if bare {
                word = letters.next();
            }
            let number = |value: i64| if bare { value.to_string() } else { format!("{value:02}") };
            match word {
                Some('Y') => _ = write!(text, "{year}"),
                Some('y') => text += &number(year.rem_euclid(100)),
                Some('m') => text += &number(month),
                Some('d') => text += &number(day),
                Some('e') => _ = write!(text, "{day:2}"),
                Some('B') => text += month_name,
                Some('b' | 'h') => text += month_name.get(..3).unwrap_or(month_name),
                Some('A') => text += weekday,
                Some('a') => text += weekday.get(..3).unwrap_or(weekday),
                Some('H') => text += &number(hour),
                Some('I') => text += &number(hour12),
                Some('M') => text += &number(minute),
                Some('S') => text += &number(self.second % 60),
                Some('p') => text += if hour < 12 { "AM" } else { "PM" },
                Some('F') => _ = write!(text, "{year}-{month:02}-{day:02}"),
                Some('T') => _ = write!(text, "{hour:02}:{minute:02}:{:02}", self.second % 60),
                Some('Z') => text += "UTC",
                Some('%') => text.push('%'),
                other => return Err(format!("strftime_now does not know %{}", other.unwrap_or(' '))),
            }
        }
        Ok(text)
    }

    /// Year, month and day; the algorithm is Howard Hinnant's `civil_from_days`.
    fn date(self) -> (i64, i64, i64) {
        let shifted = self.days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        (year_of_era + era * 400 + i64::from(month <= 2), month, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_come_out_as_templates_ask_for_them() {
        let moment = Moment::at(1_709_210_096); // 2024-02-29 12:34:56 UTC, a Thursday
        assert_eq!(moment.format("%d %b %Y").as_deref(), Ok("29 Feb 2024"));
        assert_eq!(moment.format("%A, %B %-d, %H:%M:%S").as_deref(), Ok("Thursday, February 29, 12:34:56"));
        assert_eq!(moment.format("%F %T %I %p %a %y 100%%").as_deref(), Ok("2024-02-29 12:34:56 12 PM Thu 24 100%"));
        assert_eq!(Moment::at(0).format("%Y-%m-%d %-I").as_deref(), Ok("1970-01-01 12"));
        assert_eq!(Moment::at(4_107_542_399).format("%Y-%m-%d").as_deref(), Ok("2100-02-28"));
        assert_eq!(Moment::at(4_107_542_400).format("%Y-%m-%d").as_deref(), Ok("2100-03-01"));
    }

    #[test]
    fn an_unknown_letter_is_named() {
        assert!(Moment::at(0).format("%Q").expect_err("no such letter").contains("%Q"));
        assert!(Moment::at(0).format("%").is_err());
    }
}
