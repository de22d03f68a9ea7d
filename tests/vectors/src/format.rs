//! The text of the vectors: JSON, one call in a few lines.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::{VERSION, Vector};

/// Writes the file of these vectors.
pub(crate) fn write(vectors: &[Vector]) -> String {
    let mut text = format!("{{\"version\":{VERSION},\"vectors\":[");
    for (at, vector) in vectors.iter().enumerate() {
        text.push_str(if at == 0 { "\n" } else { ",\n" });
        write_one(&mut text, vector);
    }
    text.push_str("\n]}\n");
    text
}

fn write_one(text: &mut String, vector: &Vector) {
    let Vector {
        name,
        script,
        time,
        keys,
        args,
        ..
    } = vector;
    let (name, script) = (json!(name), json!(script));
    let mut line = |line: String| write!(text, "{line}").expect("a string");
    line(format!("{{\"script\":{script},\"name\":{name},\n"));
    line(format!(" \"time\":{time},\"keys\":{},\n", json!(keys)));
    line(format!(" \"args\":{},\n", json!(args)));
    line(format!(" \"before\":{},\n", json!(vector.before)));
    line(format!(" \"reply\":{}", vector.reply));
    if vector.after != vector.before {
        line(format!(",\n \"after\":{}", json!(vector.after)));
    }
    if !vector.messages.is_empty() {
        line(format!(",\n \"messages\":{}", json!(vector.messages)));
    }
    line("}".to_owned());
}

/// Reads the text of a file.
///
/// # Panics
///
/// Panics if the text is of another form or version.
pub(crate) fn read(text: &str) -> Vec<Vector> {
    let mut file: Value = serde_json::from_str(text).expect("JSON");
    let version = &file["version"];
    assert_eq!(*version, json!(VERSION), "the version of the vectors");
    for vector in file["vectors"].as_array_mut().expect("a list") {
        let fields = vector.as_object_mut().expect("a call");
        let before = fields["before"].clone();
        fields.entry("after").or_insert(before);
    }
    serde_json::from_value(file["vectors"].take()).expect("calls")
}
