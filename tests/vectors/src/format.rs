//! The text of the vectors: JSON, one call in a few lines.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::{Content, Key, State, VERSION, Vector};

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
    line(format!(" \"before\":{},\n", write_state(&vector.before)));
    line(format!(" \"reply\":{}", vector.reply));
    if vector.after != vector.before {
        line(format!(",\n \"after\":{}", write_state(&vector.after)));
    }
    if !vector.messages.is_empty() {
        line(format!(",\n \"messages\":{}", json!(vector.messages)));
    }
    line("}".to_owned());
}

fn write_state(state: &State) -> Value {
    let keys = state.iter().map(|(name, key)| {
        let mut entry = Map::new();
        let (kind, value) = match &key.content {
            Content::Text(text) => ("text", json!(text)),
            Content::Hash(fields) => ("hash", json!(fields)),
            Content::Sorted(members) => ("sorted", json!(members)),
        };
        entry.insert(kind.to_owned(), value);
        if let Some(ttl) = key.ttl {
            entry.insert("ttl".to_owned(), ttl.into());
        }
        (name.clone(), Value::Object(entry))
    });
    Value::Object(keys.collect())
}

/// Reads the text of a file.
///
/// # Panics
///
/// Panics if the text is of another form or version.
pub(crate) fn read(text: &str) -> Vec<Vector> {
    let file: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(
        file["version"],
        json!(VERSION),
        "the version of the vectors"
    );
    array(&file["vectors"]).iter().map(read_one).collect()
}

fn read_one(value: &Value) -> Vector {
    let before = read_state(&value["before"]);
    let after = value
        .get("after")
        .map_or_else(|| before.clone(), read_state);
    let messages = value.get("messages").map(array).unwrap_or_default();
    Vector {
        name: text(&value["name"]),
        script: text(&value["script"]),
        time: value["time"].as_u64().expect("a time"),
        keys: array(&value["keys"]).iter().map(text).collect(),
        args: array(&value["args"]).iter().map(text).collect(),
        before,
        reply: value["reply"].clone(),
        after,
        messages: messages
            .iter()
            .map(|pair| (text(&pair[0]), text(&pair[1])))
            .collect(),
    }
}

fn read_state(value: &Value) -> State {
    let keys = value.as_object().expect("a state").iter();
    keys.map(|(name, key)| (name.clone(), read_key(key)))
        .collect()
}

fn read_key(key: &Value) -> Key {
    let content = if let Some(fields) = key.get("hash").and_then(Value::as_object) {
        let fields = fields.iter();
        Content::Hash(
            fields
                .map(|(field, value)| (field.clone(), text(value)))
                .collect(),
        )
    } else if let Some(members) = key.get("sorted").and_then(Value::as_object) {
        let members = members.iter();
        let score = |value: &Value| value.as_u64().expect("a score");
        Content::Sorted(
            members
                .map(|(member, at)| (member.clone(), score(at)))
                .collect(),
        )
    } else {
        Content::Text(text(&key["text"]))
    };
    let ttl = key.get("ttl").map(|ttl| ttl.as_u64().expect("ms"));
    Key { content, ttl }
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

fn array(value: &Value) -> Vec<Value> {
    value.as_array().expect("a list").clone()
}
