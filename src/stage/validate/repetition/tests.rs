use super::*;
use std::fmt::Write as _;

fn lines(n: usize, line: impl Fn(usize) -> String) -> String {
    (1..=n).map(|i| line(i) + "\n").collect()
}

/// Text that does not repeat: words drawn by a small generator.
fn prose(words: usize) -> String {
    let list =
        ["river", "stone", "under", "light", "the", "moves", "old", "a", "green", "by", "house", "of", "slow", "and"];
    let mut state = 7_u64;
    let mut text = String::new();
    for at in 0..words {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = list[(state >> 33) as usize % list.len()];
        let end = if at % 11 == 10 { ". " } else { " " };
        write!(text, "{word}{end}").expect("a String takes all");
    }
    text
}

#[test]
fn one_symbol_for_ever_is_degenerate() {
    let found = degenerate(&"!".repeat(2_000)).expect("2,000 exclamation marks");
    assert!(found.contains("\"!\""), "{found}");
    assert!(degenerate(&format!("Sure. {}", "\u{FFFD}".repeat(400))).is_some());
    assert!(degenerate(&format!("{} 0 {}", prose(50), "!".repeat(400))).is_some());
    assert!(degenerate(&format!("{}\n{}", "G".repeat(2_000), prose(200))).is_some(), "also in front of good text");
    assert!(degenerate(&"ha".repeat(400)).is_some());
    assert!(degenerate(&"0".repeat(4_000)).is_some());
}

#[test]
fn a_looping_sentence_is_degenerate_wherever_it_is_cut() {
    let sentence = "Let me check that once more. ";
    let text = format!("To answer this we add the numbers. {}", sentence.repeat(80));
    for cut in [0, 1, 13, 30] {
        let found = degenerate(text.get(..text.len() - cut).expect("ASCII")).expect("a loop");
        assert!(found.contains("in a row up to the end"), "{found}");
    }
}

#[test]
fn a_loop_that_comes_to_an_end_is_still_found() {
    let text = format!("We add. {}So the answer is 4.", "Wait, let me check that once more. ".repeat(60));
    let found = degenerate(&text).expect("a loop");
    assert!(found.contains("said 60 times"), "{found}");
    let three = "First I look at the left side of the sum. Then I look at the right side of it. They might differ, so I begin again. ";
    assert!(degenerate(&format!("Hm. {}The end, at last.", three.repeat(40))).is_some());
}

#[test]
fn a_looping_paragraph_and_a_loop_without_spaces_are_found() {
    let paragraph = prose(120);
    assert!(degenerate(&paragraph.repeat(12)).is_some());
    let chinese = "让我再检查一遍这个答案是否正确。".repeat(60);
    assert!(degenerate(&chinese).is_some());
    let ended = format!("{}所以答案是四。", "让我再检查一遍这个答案是否正确，".repeat(100));
    assert!(degenerate(&ended).expect("a loop").contains("compresses"));
}

#[test]
fn tables_of_zeros_pass() {
    for size in [5, 12, 30, 50] {
        let table = lines(size, |_| format!("|{}", " 0 |".repeat(size)));
        let python = format!("[{}]", vec![format!("[{}]", vec!["0"; size].join(", ")); size].join(", "));
        for text in [table, python] {
            assert_eq!(degenerate(&format!("Here it is:\n\n{text}\nThat is the zero matrix.")), None, "{size}");
            assert_eq!(degenerate(&text), None, "{size}, and nothing after it");
        }
    }
}

#[test]
fn a_table_a_list_and_a_refrain_in_one_answer_pass() {
    let table = lines(12, |_| "|".to_owned() + &" 0 |".repeat(12));
    let numbers: Vec<String> = (1..=60).map(|i| i.to_string()).collect();
    let song = "La la la, la la la, the refrain goes twice: la la la, la la la.";
    let text =
        format!("Here is the 12 by 12 zero matrix:\n\n{table}\nAnd the numbers: {}.\n\n{song}", numbers.join(", "));
    assert_eq!(degenerate(&text), None);
}

#[test]
fn refrains_pass() {
    let refrain = "Oh, roll along, you winter river,\nroll along and take me home,\nroll along, roll along.\n\n";
    let verse = |i: usize| format!("{}\n", prose(20 + i * 7));
    let song: String = (0..6).map(|i| verse(i) + refrain).collect();
    assert_eq!(degenerate(&song), None);
    assert_eq!(degenerate("La la la, la la la, the refrain goes twice: la la la, la la la."), None);
    assert_eq!(degenerate(&format!("{}\n{}", prose(30), "na na na hey ".repeat(12))), None);
}

#[test]
fn lists_of_numbers_pass() {
    let plain: Vec<String> = (1..=200).map(|i| i.to_string()).collect();
    assert_eq!(degenerate(&plain.join(", ")), None);
    assert_eq!(degenerate(&plain.join("\n")), None);
    let bytes = lines(60, |_| "    0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0x00, 0x00,".to_owned());
    assert_eq!(degenerate(&format!("const TABLE: [u8; 480] = [\n{bytes}];\n")), None);
    assert_eq!(degenerate(&lines(200, |i| format!("{i}. Item number {i}"))), None);
    assert_eq!(degenerate(&lines(100, |i| format!("7 times {i} is {}", 7 * i))), None);
}

#[test]
fn markdown_and_code_pass() {
    let table = "| name | value | note |\n|------|-------|------|\n".to_owned()
        + &lines(60, |i| format!("| row {i} | {} | none |", i * i));
    assert_eq!(degenerate(&table), None);
    let wide = format!("|{}\n|{}\n", " column |".repeat(20), "---|".repeat(20));
    assert_eq!(degenerate(&wide), None);
    let cases = lines(60, |i| format!("        case {i}:\n            return name_{i};\n            break;"));
    assert_eq!(degenerate(&format!("switch (x) {{\n{cases}}}\n")), None);
    let sql = lines(80, |i| format!("INSERT INTO users (id, name, active) VALUES ({i}, 'user{i}', true);"));
    assert_eq!(degenerate(&sql), None);
    let json = lines(60, |i| format!("  {{\"id\": {i}, \"name\": \"n{}\", \"tags\": []}},", i * 31));
    assert_eq!(degenerate(&json), None);
    let tests = lines(40, |i| format!("#[test]\nfn case_{i}() {{\n    assert_eq!(f({i}), {});\n}}\n", i * 3));
    assert_eq!(degenerate(&tests), None);
}

#[test]
fn rules_blanks_and_big_numbers_pass() {
    assert_eq!(degenerate(&format!("Title\n{}\n{}", "=".repeat(120), prose(100))), None);
    assert_eq!(degenerate(&format!("1{}", "0".repeat(1_000))), None);
    assert_eq!(degenerate(&format!("Name{}Value", " ".repeat(400))), None);
    assert_eq!(degenerate(&format!("Nooo{}!!!", "o".repeat(100))), None);
}

#[test]
fn prose_of_any_length_passes() {
    for words in [0, 1, 10, 1_000, 20_000] {
        assert_eq!(degenerate(&prose(words)), None, "{words} words");
    }
    assert_eq!(degenerate("Yes. Yes. Yes. Yes. Yes. Yes."), None);
    assert_eq!(degenerate("是的。".repeat(8).as_str()), None);
}

#[test]
fn a_megabyte_takes_no_more_than_linear_time() {
    // A text on which a quadratic search for periods would not end in the time of a test.
    let text = format!("{}b", "a".repeat(255)).repeat(4_000);
    assert!(degenerate(&text).is_some());
}
