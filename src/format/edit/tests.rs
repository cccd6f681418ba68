use super::*;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn shown(text: Option<Vec<u8>>) -> String {
    String::from_utf8(text.expect("an edit")).expect("utf-8")
}

#[test]
fn only_the_value_at_the_path_changes() {
    let text = br#" { "id" : 123456789012345678901234567890, "a":[1 , {"b":"x\"]"}], "n": 1.10 } "#;
    let span = find(text, &[Step::Key("a"), Step::Index(1), Step::Key("b")]).expect("there");
    assert_eq!(&text[span.clone()], br#""x\"]""#);
    let expected = r#" { "id" : 123456789012345678901234567890, "a":[1 , {"b":null}], "n": 1.10 } "#;
    assert_eq!(shown(Some(replace(text, span, b"null"))), expected);
    assert_eq!(find(text, &[Step::Key("a"), Step::Index(2)]), None);
    assert_eq!(find(text, &[Step::Key("id"), Step::Key("a")]), None);
}

#[test]
fn of_a_doubled_key_the_last_counts() {
    let text = br#"{"a":1,"\u0061":2}"#;
    assert_eq!(shown(set(text, root(text).expect("object"), "a", b"3")), r#"{"a":1,"\u0061":3}"#);
}

#[test]
fn a_new_key_and_a_new_element_are_spaced_like_their_neighbours() {
    for (text, expected) in
        [(r#"{"a":1}"#, r#"{"a":1,"k":0}"#), (r#"{"a": 1 }"#, r#"{"a": 1, "k": 0 }"#), ("{}", r#"{"k": 0}"#)]
    {
        assert_eq!(shown(set(text.as_bytes(), 0..text.len(), "k", b"0")), expected);
    }
    for (text, expected) in [("[1,2]", "[1,2,0]"), ("[1, 2 ]", "[1, 2, 0 ]"), ("[]", "[0]"), ("[ 1 ]", "[ 1, 0 ]")] {
        assert_eq!(shown(append(text.as_bytes(), 0..text.len(), b"0")), expected);
    }
}

#[test]
fn a_key_goes_with_one_comma() {
    for (text, expected) in [
        (r#"{"k":1}"#, "{}"),
        (r#"{"k":1, "a":2}"#, r#"{"a":2}"#),
        (r#"{"a":2, "k":1}"#, r#"{"a":2}"#),
        (r#"{"a":2,"k":1 ,"b":3}"#, r#"{"a":2 ,"b":3}"#),
        (r#"{"k":1,"k":2,"a":1,"k":3}"#, r#"{"a":1}"#),
        (r#"{"a":1}"#, r#"{"a":1}"#),
    ] {
        assert_eq!(shown(remove(text.as_bytes(), 0..text.len(), "k")), expected);
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        "[\\PC\"\\\\{}\\[\\],:]{0,6}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-c\"\\\\]{0,2}", inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::vec(("[a-c\"\\\\]{0,2}", value()), 0..5).prop_map(|pairs| pairs.into_iter().collect())
}

fn parsed(text: &[u8]) -> Value {
    serde_json::from_slice(text).expect("json")
}

proptest! {
    #[test]
    fn an_edited_text_parses_to_the_edited_value(mut row in object(), new in value(), key in "[a-d\"]{0,2}", pretty: bool) {
        let text = if pretty { serde_json::to_vec_pretty(&row) } else { serde_json::to_vec(&row) }.expect("json");
        let span = root(&text).expect("object");
        let edited = set(&text, span.clone(), &key, new.to_string().as_bytes()).expect("object");
        let old = member(&text, span.clone(), &key).map_or(span.end - 1..span.end - 1, |member| member.value);
        prop_assert!(edited.starts_with(text[..old.start].trim_ascii_end()));
        prop_assert!(edited.ends_with(&text[old.end..]));
        let cleared = remove(&text, span, &key).expect("object");
        row[&key] = new;
        prop_assert_eq!(parsed(&edited), row.clone());
        row.as_object_mut().expect("object").shift_remove(&key);
        prop_assert_eq!(parsed(&cleared), row);
    }

    #[test]
    fn an_appended_text_parses_to_the_longer_array(mut list in prop::collection::vec(value(), 0..4), new in value()) {
        let text = json!({ "list": list }).to_string();
        let span = find(text.as_bytes(), &[Step::Key("list")]).expect("array");
        let edited = append(text.as_bytes(), span, new.to_string().as_bytes()).expect("array");
        list.push(new);
        prop_assert_eq!(parsed(&edited), json!({ "list": list }));
    }

    #[test]
    fn text_that_is_not_json_causes_no_panic(soup in "[{}\\[\\]\",:\\\\a1 ]{0,30}") {
        let text = soup.as_bytes();
        if let Some(span) = root(text) {
            let _ = (set(text, span.clone(), "a", b"1"), remove(text, span.clone(), "a"), append(text, span, b"1"));
        }
        let _ = find(text, &[Step::Key("a"), Step::Index(0)]);
    }
}
