use super::*;
use proptest::prelude::*;

fn open(bytes: &[u8], max: u64) -> Result<Rows, RowsError> {
    Rows::open(Box::new(Cursor::new(bytes.to_vec())), Limits { max_line_bytes: max })
}

/// Position and word of each row; the word is empty for a good one.
fn told(bytes: &[u8]) -> Vec<(u64, &'static str)> {
    let rows = open(bytes, 1_000).expect("rows");
    rows.map(|row| (row.position, row.problem.map_or("", |problem| problem.reason.word()))).collect()
}

/// What is said at the end, once all rows are read.
fn end(bytes: &[u8]) -> Result<(), RowsError> {
    let mut rows = open(bytes, 1_000).expect("rows");
    rows.by_ref().for_each(drop);
    rows.finish()
}

#[test]
fn each_fault_has_its_word() {
    for (line, word) in [
        (&b"{\"a\":\"\xff\"}"[..], "invalid_utf8"),
        (b"{\"a\":1} {}", "invalid_json"),
        (b"{\"a\":1},", "invalid_json"),
        (b"[1]", "not_an_object"),
        (b"\"text\"", "not_an_object"),
        (b"{\"a\":1}\0\0\0\0", "nul_block"),
        (b"\0", "nul_block"),
        (b"{\"a\":\"\\ud800\"}", "lone_surrogate"),
        (b"{\"\\udc00\":1}", "lone_surrogate"),
        (b"{\"a\":\"\\ud800\\ud800\"}", "lone_surrogate"),
        (b"{\"a\":\"\\ud83d\\ude00 \\\\ud800 \\u0000\"}", ""),
        (b"{\"a\":1e400,\"a\":2}", ""),
    ] {
        let text = [b"{}\n", line, b"\n{}"].concat();
        assert_eq!(told(&text), [(1, ""), (2, word), (3, "")], "{}", line.escape_ascii());
    }
}

#[test]
fn what_passes_the_check_can_be_parsed_by_later_stages() {
    for depth in [126, 127, 128, 500] {
        let text = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        let passes = check(text.as_bytes()).is_ok();
        assert_eq!(passes, serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{depth}");
    }
}

#[test]
fn an_overlong_line_is_passed_over_and_its_length_told() {
    for (line, long) in [("{}", false), ("{ }", false), ("{  }", true)] {
        for tail in ["\n{}", ""] {
            let rows: Vec<_> = open(format!("{line}{tail}").as_bytes(), 3).expect("rows").collect();
            assert_eq!(rows[0].problem.as_ref().is_some_and(|p| p.reason == Reason::LineTooLong), long);
            assert_eq!(rows.len(), if tail.is_empty() { 1 } else { 2 });
        }
    }
    let text = format!("{{\"a\":\"{}\"}}\n{{}}\n", "x".repeat(500_000));
    let rows: Vec<_> = open(text.as_bytes(), 1_000).expect("rows").collect();
    assert_eq!(rows[0].problem.as_ref().map(|p| p.detail.as_str()), Some("500008 bytes, and max_line_bytes is 1000"));
    assert_eq!((rows[1].position, rows[1].problem.is_none()), (2, true));
    let rows: Vec<_> = open(format!("[{text}]").replace("}\n{", "},{").as_bytes(), 1_000).expect("rows").collect();
    assert_eq!(rows[0].problem.as_ref().map(|p| p.reason), Some(Reason::LineTooLong));
    assert_eq!((rows[1].position, &rows[1].bytes[..]), (2, &b"{}"[..]));
}

#[test]
fn the_elements_of_an_array_keep_their_bytes() {
    let text = b"\xef\xbb\xbf [ {\"a\":\n \"],[\\\"\"} ,\n{\"b\":[1,{}]}, 7, {}\n]\n";
    let rows: Vec<_> = open(text, 1_000).expect("rows").collect();
    let bytes: Vec<&[u8]> = rows.iter().map(|row| &row.bytes[..]).collect();
    assert_eq!(bytes, [&b"{\"a\":\n \"],[\\\"\"}"[..], b"{\"b\":[1,{}]}", b"7", b"{}"]);
    assert_eq!(told(text), [(1, ""), (2, ""), (3, "not_an_object"), (4, "")]);
    assert!(end(text).is_ok());
    assert_eq!(told(b"[]"), []);
    assert_eq!(told(b"[{},]"), [(1, "")]);
    assert_eq!(told(b"[{} {},{}]"), [(1, "invalid_json"), (2, "")]);
}

#[test]
fn an_array_that_is_cut_or_followed_by_more_is_told() {
    assert_eq!(told(b"[{},{\"a"), [(1, ""), (2, "cut_input")]);
    assert!(matches!(end(b"[{},{\"a"), Err(RowsError::ArrayNotClosed { after: 1 })));
    assert!(matches!(end(b"[{},"), Err(RowsError::ArrayNotClosed { after: 1 })));
    assert!(matches!(end(b"[{}]\n{}"), Err(RowsError::AfterArray { after: 1 })));
}

#[test]
fn a_break_in_the_middle_keeps_the_rows_before_it() {
    let plain: String = (0..2_000).map(|n| format!("{{\"n\":{n},\"r\":\"{:x}\"}}\n", n * 7_919)).collect();
    let packed = zstd::encode_all(plain.as_bytes(), 1).expect("memory");
    let mut bytes = [packed.clone(), packed].concat();
    bytes.truncate(bytes.len() - 5);
    let mut rows = open(&bytes, 1_000).expect("rows");
    let good = rows.by_ref().filter(|row| row.problem.is_none()).count();
    assert!(good >= 2_000, "{good}");
    let error = rows.finish().expect_err("cut").to_string();
    assert!(error.starts_with(&format!("the compressed input breaks off after row {good}: ")), "{error}");
}

#[test]
fn inputs_that_are_no_rows_are_refused_with_advice() {
    assert!(matches!(open(b"\xff\xfe{\0}\0", 100), Err(RowsError::Utf16)));
    let keyed = br#"{"a":{"prompt":"x","response":""},"b":{"prompt":"y","response":""}}"#;
    assert!(matches!(open(keyed, 100), Err(RowsError::OneObject)));
    assert!(matches!(open(b"{\n \"a\": 1\n}\n", 100), Err(RowsError::OneObject)));
    let long = format!("{{\n\"a\": [{}]}}", "1,\n".repeat(100_000));
    assert!(matches!(open(long.as_bytes(), 100), Err(RowsError::OneObject)));
    // A torn first line is one bad line.
    assert_eq!(told(b"{\"a\": \n{\"a\":1}\n"), [(1, "invalid_json"), (2, "")]);
    assert_eq!(told(b"{\"a\": \"x\n{\"a\":1}\n"), [(1, "invalid_json"), (2, "")]);
    assert_eq!(told(b"{\"meta\":{},\"more\":{}}"), [(1, "")]);
}

proptest! {
    #[test]
    fn every_line_that_is_not_blank_is_a_row_or_a_problem(
        soup in prop::collection::vec(prop::sample::select(b"{}[]\",:\\u1ad\xef\xbb\xbf\xff\0 \t\r\n\n\n".to_vec()), 0..200),
        max in 0_u64..40,
    ) {
        let Ok(mut rows) = open(&soup, max) else { return Ok(()) };
        let told: Vec<u64> = rows.by_ref().map(|row| row.position).collect();
        let body = soup.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&soup);
        let compressed = Kind::of(&soup) != Kind::Plain;
        if body.trim_ascii_start().first() != Some(&b'[') && !compressed {
            let lines = (1..).zip(body.split(|&byte| byte == b'\n'));
            let long = |line: &[u8]| line.len() as u64 > max;
            let expected: Vec<u64> =
                lines.filter(|(_, line)| !line.trim_ascii().is_empty() || long(line)).map(|(at, _)| at).collect();
            prop_assert_eq!(told, expected);
            prop_assert!(rows.finish().is_ok());
        }
    }

    #[test]
    fn a_row_that_passes_is_json_that_can_be_parsed(
        soup in "\\{\"[ab\"\\\\:,]{0,3}\":(1|\"(a|\\\\u|d83d|\\\\ude00|\\\\n|\\\\|\u{1}|\"){0,5}\"|\\[\\]|\\{\\}|null){1,2}\\}",
    ) {
        let parsed = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&soup);
        prop_assert_eq!(check(soup.as_bytes()).is_ok(), parsed.is_ok(), "{}", soup);
    }

    #[test]
    fn no_bytes_whatever_cause_a_panic(soup: Vec<u8>, max in 0_u64..40) {
        if let Ok(mut rows) = open(&soup, max) {
            rows.by_ref().for_each(drop);
            let _ = rows.finish();
        }
    }
}
