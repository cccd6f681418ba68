//! `tojson` as chat templates know it: what Python's `json.dumps` writes, without the escapes for HTML that the
//! engine's own filter makes. A tool schema must come out letter for letter, or the model sees another one.

use minijinja::{Error, ErrorKind, Value, value::Kwargs};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};

/// The filter: `value | tojson(indent=…, ensure_ascii=…, sort_keys=…)`.
///
/// The defaults are those of the `tojson` that transformers gives to templates: one line, `", "` and `": "` between,
/// letters beyond ASCII as they are, keys in their order.
pub fn tojson(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let ascii: Option<bool> = options.get("ensure_ascii")?;
    let sorted: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::BadSerialization, "tojson got a value that is not defined"));
    }
    let failed = |error: serde_json::Error| Error::new(ErrorKind::BadSerialization, error.to_string());
    let mut json = serde_json::to_value(value).map_err(failed)?;
    if sorted == Some(true) {
        json.sort_all_objects();
    }
    let style = Python {
        indent: indent.map(|width| width.min(MOST_INDENT)),
        ascii: ascii == Some(true),
        depth: 0,
        filled: false,
    };
    let mut text = Vec::new();
    json.serialize(&mut Serializer::with_formatter(&mut text, style)).map_err(failed)?;
    let text = String::from_utf8(text).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    Ok(Value::from_safe_string(text))
}

/// A template that asks for more is not one of this world.
const MOST_INDENT: usize = 16;

/// The style of Python's `json.dumps`.
struct Python {
    /// Blanks per level; `None` writes all in one line.
    indent: Option<usize>,
    /// Whether letters beyond ASCII are escaped.
    ascii: bool,
    /// How deep the writer is.
    depth: usize,
    /// Whether the innermost list or object has an entry.
    filled: bool,
}

impl Python {
    fn open<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        writer.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth = self.depth.saturating_sub(1);
        if self.filled {
            self.line(writer)?;
        }
        self.filled = true;
        writer.write_all(bracket)
    }

    fn between<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        match (first, self.indent) {
            (true, _) => {}
            (false, None) => writer.write_all(b", ")?,
            (false, Some(_)) => writer.write_all(b",")?,
        }
        self.line(writer)
    }

    fn line<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        match self.indent {
            Some(width) => write!(writer, "\n{:1$}", "", width * self.depth),
            None => Ok(()),
        }
    }
}

impl Formatter for Python {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }
    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.between(writer, first)
    }
    fn end_array_value<W: ?Sized + Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }
    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }
    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.between(writer, first)
    }
    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
    fn end_object_value<W: ?Sized + Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if !self.ascii {
            return writer.write_all(fragment.as_bytes());
        }
        for c in fragment.chars() {
            if c.is_ascii() {
                write!(writer, "{c}")?;
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::Environment;

    fn written(expression: &str, json: &str) -> String {
        let mut engine = Environment::new();
        engine.add_filter("tojson", tojson);
        let value: serde_json::Value = serde_json::from_str(json).expect("JSON");
        let context = minijinja::context! { x => Value::from(minijinja::value::Serde(value)) };
        engine.render_str(&format!("{{{{ {expression} }}}}"), context).expect("it renders")
    }

    #[test]
    fn one_line_has_the_separators_of_python_and_no_html_escapes() {
        let json = r#"{"b":[1,2.5,null,true,[],{}],"a":"<b> & 'c' é \"\n"}"#;
        let python = r#"{"b": [1, 2.5, null, true, [], {}], "a": "<b> & 'c' é \"\n"}"#;
        assert_eq!(written("x | tojson", json), python);
        assert_eq!(written("x | tojson(ensure_ascii=False)", json), python);
        assert_eq!(written("x | tojson(sort_keys=true)", r#"{"b":1,"a":2}"#), r#"{"a": 2, "b": 1}"#);
    }

    #[test]
    fn ascii_is_escaped_in_utf16_where_asked_for() {
        assert_eq!(written("x | tojson(ensure_ascii=True)", "\"é😀\""), r#""\u00e9\ud83d\ude00""#);
    }

    #[test]
    fn indented_text_is_that_of_python() {
        let python = "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}";
        assert_eq!(written("x | tojson(indent=2)", r#"{"a":[1,{}],"b":[]}"#), python);
    }

    #[test]
    fn what_is_not_defined_is_an_error() {
        let mut engine = Environment::new();
        engine.add_filter("tojson", tojson);
        assert!(engine.render_str("{{ nothing | tojson }}", ()).is_err());
        assert!(engine.render_str("{{ 1 | tojson(depth=2) }}", ()).is_err());
    }
}
