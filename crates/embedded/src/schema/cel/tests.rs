#![expect(
    clippy::needless_pass_by_value,
    reason = "helpers take json!() literals"
)]

use serde_json::json;

use super::*;

/// A resource whose `spec` has a schema and one rule.
fn spec(mut schema: Value, rule: &str) -> Value {
    schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
    json!({"type": "object", "properties": {"spec": schema}})
}

fn verdict(schema: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = Schema::structural(schema, "S").unwrap();
    let rules = Rules::compile(&schema);
    rules
        .check(new, old)
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn holds(schema: Value, rule: &str, value: Value) -> bool {
    verdict(&spec(schema, rule), &json!({"spec": value}), None).is_empty()
}

fn refusal(schema: Value, rule: &str) -> String {
    let errors = Schema::structural(&spec(schema, rule), "S").unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors[0].to_string()
}

fn object() -> Value {
    json!({"type": "object", "properties": {
        "replicas": {"type": "integer"},
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "a-b": {"type": "string"},
        "ratio": {"type": "number"},
        "enabled": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "port": {"x-kubernetes-int-or-string": true},
        "at": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"},
        "terms": {"type": "array", "items": {"type": "object", "properties": {
            "id": {"type": "string"}, "n": {"type": "integer"}}}},
    }})
}

#[test]
fn rules_see_the_fields_of_the_schema() {
    let cases = [
        ("self.replicas >= 1", json!({"replicas": 1}), true),
        ("self.replicas >= 1", json!({"replicas": 0}), false),
        ("has(self.name)", json!({}), false),
        ("self.__namespace__ == 'x'", json!({"namespace": "x"}), true),
        ("self.a__dash__b == 'x'", json!({"a-b": "x"}), true),
        ("self.ratio > 0.5", json!({"ratio": 1}), true),
        (
            "self.tags.all(t, t.startsWith('a'))",
            json!({"tags": ["ab", "a"]}),
            true,
        ),
        (
            "self.tags.exists_one(t, t == 'a')",
            json!({"tags": ["a", "a"]}),
            false,
        ),
        (
            "self.labels.all(k, k != '' && self.labels[k] != '')",
            json!({"labels": {"a": ""}}),
            false,
        ),
        ("'a' in self.labels", json!({"labels": {"a": "1"}}), true),
        (
            "self.terms.all(t, has(t.id) || t.n > 1)",
            json!({"terms": [{"id": "x"}, {"n": 2}]}),
            true,
        ),
        (
            "self.terms.filter(t, has(t.id)).size() == 1",
            json!({"terms": [{"id": "x"}, {"n": 2}]}),
            true,
        ),
        (
            "self.terms.map(t, t.n).sum() == 3",
            json!({"terms": [{"n": 1}, {"n": 2}]}),
            true,
        ),
        (
            "type(self.port) == int ? self.port > 0 : self.port == 'http'",
            json!({"port": "http"}),
            true,
        ),
        (
            "self.at > timestamp('2024-01-01T00:00:00Z')",
            json!({"at": "2024-05-01T00:00:00Z"}),
            true,
        ),
        (
            "self.at.getFullYear() == 2024 && self.at.getMonth() == 4",
            json!({"at": "2024-05-01T00:00:00Z"}),
            true,
        ),
        ("self.wait <= duration('1h')", json!({"wait": "90m"}), false),
        (
            "self.wait + duration('30m') == duration('1h')",
            json!({"wait": "30m"}),
            true,
        ),
        ("self.?name.orValue('none') == 'none'", json!({}), true),
        (
            "!has(self.name) || self.name.size() <= 3",
            json!({"name": "abcd"}),
            false,
        ),
    ];
    for (rule, value, expected) in cases {
        assert_eq!(
            holds(object(), rule, value.clone()),
            expected,
            "{rule} on {value}"
        );
    }
}

#[test]
fn the_kubernetes_libraries_are_there() {
    let text = json!({"type": "string"});
    let rules = [
        ("self.find('^[^/]+').endsWith('sh')", "karpenter.sh/x"),
        ("self.findAll('[0-9]+') == ['1', '2']", "a1b2"),
        ("self.split('@')[0] in ['al2', 'al2023']", "al2@latest"),
        ("self.matches('^[a-z]+$')", "abc"),
        (
            "self.lowerAscii() == 'abc' && self.upperAscii() == 'ABC'",
            "Abc",
        ),
        (
            "self.replace('a', 'b') == 'bbb' && self.substring(1) == 'ab'",
            "aab",
        ),
        ("self.indexOf('b') == 1 && self.charAt(0) == 'a'", "ab"),
        ("'%s has %d'.format([self, 2]) == 'x has 2'", "x"),
        ("quantity(self).isGreaterThan(quantity('500Mi'))", "1Gi"),
        (
            "quantity(self).add(quantity('1')).compareTo(quantity('2')) == 0",
            "1",
        ),
        ("isQuantity(self) && !isQuantity('x')", "100m"),
        (
            "url(self).getHostname() == 'example.com' && url(self).getPort() == '8443'",
            "https://example.com:8443/a?b=c",
        ),
        (
            "isURL(self) && url(self).getQuery()['b'] == ['c']",
            "https://example.com/a?b=c",
        ),
        (
            "ip(self).family() == 4 && !ip(self).isLoopback()",
            "10.1.2.3",
        ),
        ("cidr('10.0.0.0/8').containsIP(self)", "10.1.2.3"),
        (
            "cidr(self).prefixLength() == 8 && cidr(self).masked() == cidr('10.0.0.0/8')",
            "10.9.0.0/8",
        ),
        ("!format.dns1123Label().validate(self).hasValue()", "abc-1"),
        ("format.dns1123Label().validate(self).hasValue()", "ABC"),
        (
            "[1, 2, 3].isSorted() && [3, 1].max() == 3 && [1, 2].indexOf(2) == 1",
            "",
        ),
        (
            "sets.contains(['a', 'b'], ['a']) && sets.intersects([1], [1, 2])",
            "",
        ),
        (
            "optional.of(1).hasValue() && optional.none().orValue(2) == 2",
            "",
        ),
        (
            "int(self) > 3 && string(4) == '4' && double('1.5') == 1.5",
            "4",
        ),
    ];
    for (rule, value) in rules {
        assert!(holds(text.clone(), rule, json!(value)), "{rule} on {value}");
    }
}

#[test]
fn failures_have_the_words_of_the_real_server() {
    let one = |rule: Value, value: Value| {
        let mut schema = object();
        schema["x-kubernetes-validations"] = json!([rule]);
        let schema = json!({"type": "object", "properties": {"spec": schema}});
        verdict(&schema, &json!({"spec": value}), None)
    };
    let cases = [
        (
            json!({"rule": "self.replicas > 1"}),
            r#"spec: Invalid value: "object": failed rule: self.replicas > 1"#,
        ),
        (
            json!({"rule": "self.replicas > 1", "message": "too few"}),
            r#"spec: Invalid value: "object": too few"#,
        ),
        (
            json!({"rule": "self.replicas > 1", "messageExpression": "'%d is too few'.format([self.replicas])"}),
            r#"spec: Invalid value: "object": 1 is too few"#,
        ),
        (
            json!({"rule": "self.replicas > 1", "message": "fallback", "messageExpression": "self.name"}),
            r#"spec: Invalid value: "object": fallback"#,
        ),
        (
            json!({"rule": "self.replicas > 1", "message": "no", "reason": "FieldValueForbidden"}),
            "spec: Forbidden: no",
        ),
        (
            json!({"rule": "self.replicas > 1", "message": "no", "reason": "FieldValueRequired", "fieldPath": ".replicas"}),
            "spec.replicas: Required value: no",
        ),
        (
            json!({"rule": "self.name == 'x'"}),
            r#"spec: Invalid value: "object": no such key: name evaluating rule: self.name == 'x'"#,
        ),
        (
            json!({"rule": "[1][self.replicas] == 1"}),
            r#"spec: Invalid value: "object": index out of bounds: 1 evaluating rule: [1][self.replicas] == 1"#,
        ),
    ];
    for (rule, message) in cases {
        assert_eq!(one(rule, json!({"replicas": 1})), [message]);
    }
}

#[test]
fn rules_of_the_root_see_names_and_nothing_else_of_metadata() {
    let schema = json!({"type": "object", "x-kubernetes-validations": [
        {"rule": "self.metadata.name.startsWith('a')", "message": "name"},
    ]});
    let found = verdict(&schema, &json!({"metadata": {"name": "b"}}), None);
    assert_eq!(found, [r#"<nil>: Invalid value: "object": name"#]);
    let schema = json!({"type": "object", "x-kubernetes-validations": [
        {"rule": "self.metadata.labels.size() == 0"},
    ]});
    let errors = Schema::structural(&schema, "S").unwrap_err();
    assert!(errors[0].to_string().contains("undefined field 'labels'"));
}

#[test]
fn transition_rules_run_only_when_there_is_an_old_value() {
    let schema = spec(object(), "self.name == oldSelf.name");
    let a = json!({"spec": {"name": "a"}});
    let b = json!({"spec": {"name": "b"}});
    assert!(verdict(&schema, &a, None).is_empty());
    assert!(verdict(&schema, &a, Some(&a)).is_empty());
    assert_eq!(
        verdict(&schema, &b, Some(&a)),
        [r#"spec: Invalid value: "object": failed rule: self.name == oldSelf.name"#]
    );
    assert!(verdict(&schema, &a, Some(&json!({}))).is_empty());
}

#[test]
fn an_optional_old_self_is_there_on_create_too() {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "string",
        "x-kubernetes-validations": [
            {"rule": "oldSelf.hasValue() || self == 'new'", "optionalOldSelf": true},
        ],
    }}});
    assert!(verdict(&schema, &json!({"spec": "new"}), None).is_empty());
    assert_eq!(verdict(&schema, &json!({"spec": "x"}), None).len(), 1);
    let old = json!({"spec": "y"});
    assert!(verdict(&schema, &json!({"spec": "x"}), Some(&old)).is_empty());
}

#[test]
fn state_rules_forgive_what_did_not_change() {
    let mut schema = object();
    schema["properties"]["name"]["x-kubernetes-validations"] = json!([{"rule": "self == 'x'"}]);
    let schema = json!({"type": "object", "properties": {"spec": schema}});
    let old = json!({"spec": {"name": "bad", "replicas": 1}});
    let other = json!({"spec": {"name": "bad", "replicas": 2}});
    let worse = json!({"spec": {"name": "worse", "replicas": 1}});
    assert!(verdict(&schema, &other, Some(&old)).is_empty());
    assert_eq!(verdict(&schema, &worse, Some(&old)).len(), 1);
}

#[test]
fn items_of_keyed_lists_find_their_old_selves() {
    let schema = json!({"type": "object", "properties": {"list": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"],
            "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "shrinks"}]},
    }}});
    let old = json!({"list": [{"k": "a", "v": 5}, {"k": "b", "v": 5}]});
    let new = json!({"list": [{"k": "b", "v": 4}, {"k": "c", "v": 0}, {"k": "a", "v": 6}]});
    assert_eq!(
        verdict(&schema, &new, Some(&old)),
        [r#"list[0]: Invalid value: "object": shrinks"#]
    );
}

#[test]
fn rules_that_do_not_compile_refuse_the_crd() {
    assert_eq!(
        refusal(object(), "self.foo == 1"),
        "S.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self.foo == 1\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ERROR: <input>:1:5: undefined field 'foo'\n | self.foo == 1\n | ....^"
    );
    assert!(
        refusal(object(), "self.replicas == 'x'").ends_with(
            "compilation failed: ERROR: <input>:1:15: found no matching overload for '_==_' applied to '(int, string)'\n | self.replicas == 'x'\n | ..............^"
        )
    );
    assert!(
        refusal(object(), "other.x").ends_with(
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'other' (in container '')\n | other.x\n | ^"
        )
    );
    assert!(
        refusal(object(), "self.replicas + 1")
            .ends_with(": cel expression must evaluate to a bool")
    );
    assert!(refusal(object(), "self.name.nope()").contains("undeclared reference to 'nope'"));
    assert!(
        refusal(object(), "self.replicas.startsWith('a')")
            .contains("found no matching overload for 'startsWith' applied to 'int.(string)'")
    );
    assert!(
        refusal(object(), "self.replicas ==").contains("compilation failed: ERROR: <input>:1:")
    );
    assert!(
        refusal(object(), "self.tags.all(t, t > 1)")
            .contains("found no matching overload for '_>_' applied to '(string, int)'")
    );
}

#[test]
fn transition_rules_are_refused_where_items_cannot_be_correlated() {
    let schema = json!({"type": "object", "properties": {"list": {"type": "array",
        "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}});
    let errors = Schema::structural(&schema, "S").unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        r#"S.properties[list].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within S.properties[list]"#
    );
}

fn crds() -> Vec<(String, Value)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/testdata/crds");
    let mut crds: Vec<(String, Value)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let crd = serde_saphyr::from_str(&text).unwrap();
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                crd,
            )
        })
        .collect();
    crds.sort_by(|a, b| a.0.cmp(&b.0));
    crds
}

fn version_schema(file: &str) -> (Schema, Rules) {
    let (_, crd) = crds().into_iter().find(|(name, _)| name == file).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let schema = Schema::structural(schema, "S").unwrap();
    let rules = Rules::compile(&schema);
    (schema, rules)
}

#[test]
fn real_crds_are_accepted_with_all_their_rules() {
    let mut count = 0;
    for (file, crd) in crds() {
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let schema = &version["schema"]["openAPIV3Schema"];
            if let Err(errors) = Schema::structural(schema, "S") {
                panic!("{file}: {errors:#?}");
            }
            count += schema.to_string().matches("\"rule\":").count();
        }
    }
    assert!(count > 100, "{count} rules");
}

#[test]
fn karpenters_node_pool_is_held_to_its_rules() {
    let (_, rules) = version_schema("karpenter.sh_nodepools.yaml");
    let pool = |requirement: Value| {
        json!({"spec": {"template": {"spec": {"requirements": [requirement],
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}}})
    };
    let fine =
        pool(json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}));
    assert_eq!(rules.check(&fine, None), []);
    let cases = [
        (
            json!({"key": "karpenter.sh/other", "operator": "Exists"}),
            "label domain \"karpenter.sh\" is restricted",
        ),
        (
            json!({"key": "a", "operator": "In", "values": []}),
            "requirements with operator 'In' must have a value defined",
        ),
        (
            json!({"key": "a", "operator": "Gt", "values": ["-1"]}),
            "single positive integer value",
        ),
    ];
    for (requirement, words) in cases {
        let errors = rules.check(&pool(requirement), None);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].to_string().contains(words), "{}", errors[0]);
    }
    let mut moved = fine.clone();
    moved["spec"]["template"]["spec"]["nodeClassRef"]["kind"] = json!("other");
    let errors = rules.check(&moved, Some(&fine));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].to_string().contains("immutable"), "{}", errors[0]);
}
