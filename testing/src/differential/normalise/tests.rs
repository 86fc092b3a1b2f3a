use serde_json::json;

use super::*;

fn normaliser(steps: &str) -> Normaliser {
    let case = format!("name: x\nsteps:\n- do: {steps:?}\n");
    Normaliser::new(&serde_saphyr::from_str::<Case>(&case).unwrap())
}

fn body(normaliser: &mut Normaliser, body: Value) -> Value {
    let answer = Answer {
        request: String::new(),
        status: 200,
        headers: BTreeMap::new(),
        content: Content::Json(body),
    };
    normaliser.answer(&answer)["body"].clone()
}

#[test]
fn the_same_id_gets_the_same_sign_and_another_id_another() {
    let mut normaliser = normaliser("GET /");
    let (a, b) = (
        "0f0e0d0c-0000-4000-8000-000000000001",
        "0f0e0d0c-0000-4000-8000-000000000002",
    );
    let value = json!([{"uid": a}, {"uid": b}, {"message": format!("UID in meta: {a}")}]);
    assert_eq!(
        body(&mut normaliser, value),
        json!([{"uid": "<uid-1>"}, {"uid": "<uid-2>"}, {"message": "UID in meta: <uid-1>"}])
    );
}

#[test]
fn an_unchanged_resource_version_stays_visible_as_unchanged() {
    let mut normaliser = normaliser("GET /");
    let object = |version: &str| json!({"metadata": {"resourceVersion": version}});
    let first = body(&mut normaliser, object("17"));
    assert_eq!(body(&mut normaliser, object("17")), first);
    assert_ne!(body(&mut normaliser, object("18")), first);
}

#[test]
fn times_are_forgiven_unless_the_case_wrote_them() {
    let mut forgiving = normaliser("GET /");
    let value = json!({"time": "2026-01-02T03:04:05Z"});
    assert_eq!(
        body(&mut forgiving, value.clone()),
        json!({"time": "<time>"})
    );
    let mut exact = normaliser("2026-01-02T03:04:05Z");
    assert_eq!(body(&mut exact, value.clone()), value);
}

#[test]
fn generated_names_are_forgiven_in_messages_too() {
    let mut normaliser = normaliser("GET /");
    let value = json!({"metadata": {"generateName": "a-", "name": "a-x2b4c"}, "m": "no a-x2b4c"});
    assert_eq!(
        body(&mut normaliser, value),
        json!({"metadata": {"generateName": "a-", "name": "<name-1>"}, "m": "no <name-1>"})
    );
}

#[test]
fn everything_else_is_kept() {
    let mut normaliser = normaliser("GET /");
    let value = json!({"message": "configmaps \"a\" not found", "code": 404, "list": [1, null]});
    assert_eq!(body(&mut normaliser, value.clone()), value);
}

#[test]
fn an_object_that_is_quoted_in_a_message_is_forgiven_its_times_and_versions() {
    let mut normaliser = normaliser("GET /");
    let value = json!({"message": r#"bad: "{\"resourceVersion\":\"697\",\"t\":\"2026-11-15T12:44:55Z\"}""#});
    assert_eq!(
        body(&mut normaliser, value),
        json!({"message": r#"bad: "{\"resourceVersion\":\"<rv>\",\"t\":\"<time>\"}""#})
    );
}
