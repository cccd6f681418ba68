use super::*;
use proptest::prelude::*;

fn all(bytes: &[u8], max_line_bytes: u64) -> (Vec<Framed>, Option<RowsError>) {
    let reader = Box::new(io::Cursor::new(bytes.to_vec()));
    let mut rows = Rows::open(reader, Limits { max_line_bytes }).expect("opens");
    let found = rows.by_ref().collect();
    (found, rows.finish().err())
}

/// Position and text of the good rows, position and word of the others.
fn read(bytes: &[u8]) -> Vec<(u64, String)> {
    let (rows, _) = all(bytes, 1 << 20);
    rows.into_iter()
        .map(|row| match row.problem {
            Some(problem) => (row.position, problem.reason.word().to_owned()),
            None => (row.position, String::from_utf8(row.bytes.to_vec()).expect("text")),
        })
        .collect()
}

fn rows(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    expected.iter().map(|(position, text)| (*position, (*text).to_owned())).collect()
}

#[test]
fn an_array_is_read_element_by_element_with_the_bytes_it_has() {
    let text = b" \n[ {\"a\": \"x,]}\\\"\"} ,\n{\"b\":[1, 2]}, 7,\n]\n";
    assert_eq!(read(text), rows(&[(1, r#"{"a": "x,]}\""}"#), (2, r#"{"b":[1, 2]}"#), (3, "not_an_object")]));
    assert!(all(b"[]", 99).0.is_empty());
}

#[test]
fn an_array_that_is_not_closed_gives_its_whole_elements_and_an_error() {
    let (found, error) = all(b"[{\"a\":1},{\"b\":", 99);
    assert_eq!(found.len(), 2);
    assert_eq!(found[1].problem.as_ref().map(|problem| problem.reason), Some(Reason::CutInput));
    assert!(error.expect("an error").to_string().contains("after row 1"));
    assert!(all(b"[{}] {}", 99).1.is_some());
}

#[test]
fn a_line_that_is_too_long_is_skipped_and_named() {
    let text = format!("{{\"a\":1}}\n{{\"a\":\"{}\"}}\n{{\"b\":2}}", "x".repeat(5_000));
    let (found, error) = all(text.as_bytes(), 100);
    assert_eq!(found.len(), 3);
    let problem = found[1].problem.as_ref().expect("too long");
    assert_eq!((problem.reason, found[1].bytes.len()), (Reason::LineTooLong, 1 << 10));
    assert!(problem.detail.contains("5008"), "{}", problem.detail);
    assert!(error.is_none());
}

#[test]
fn another_encoding_is_refused_with_advice() {
    let utf16: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let refused = Rows::open(Box::new(io::Cursor::new(utf16)), Limits::default()).err().expect("refused");
    assert!(refused.to_string().contains("UTF-8"));
}

#[test]
fn whole_surrogate_pairs_and_escaped_backslashes_are_no_problem() {
    let good = r#"{"a":"😀","b":"C:\\ud800","c":"\u00e9"}"#;
    assert_eq!(read(good.as_bytes()), rows(&[(1, good)]));
    assert_eq!(read(br#"{"\udc00":1}"#), rows(&[(1, "lone_surrogate")]));
    assert_eq!(read(br#"{"a":"\ud83d\u0041"}"#), rows(&[(1, "lone_surrogate")]));
}

#[test]
fn a_pretty_printed_file_is_recognised_in_the_message() {
    let (found, _) = all(b"{\n  \"a\": 1\n}\n", 99);
    assert!(found[0].problem.as_ref().expect("a problem").detail.contains("pretty-printed"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_and_every_line_is_a_row_or_a_problem(
        lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 0..8),
        array: bool,
    ) {
        let mut text = if array { b"[".to_vec() } else { b"{}\n".to_vec() };
        let lines: Vec<Vec<u8>> = lines.into_iter().map(|mut line| { line.retain(|byte| *byte != b'\n'); line }).collect();
        text.extend(lines.join(&b'\n'));
        let (found, _) = all(&text, 20);
        if !array {
            let blank = |line: &Vec<u8>| line.iter().all(u8::is_ascii_whitespace);
            prop_assert_eq!(found.len(), 1 + lines.iter().filter(|line| !blank(line)).count());
        }
    }

    #[test]
    fn rows_come_out_as_they_went_in(values in proptest::collection::vec("[a-z \"\\\\é😀]{0,12}", 1..6), array: bool, crlf: bool) {
        let rows: Vec<String> = values.iter().map(|value| serde_json::json!({ "v": value }).to_string()).collect();
        let text = if array { format!("[{}]", rows.join(",\n")) } else { rows.join(if crlf { "\r\n" } else { "\n" }) };
        let read: Vec<String> = read(text.as_bytes()).into_iter().map(|(_, text)| text).collect();
        prop_assert_eq!(read, rows);
    }
}
