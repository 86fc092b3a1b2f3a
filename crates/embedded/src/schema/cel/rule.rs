//! One compiled rule, and what comes of running it.

use std::sync::Arc;

use cel::common::types::CelOptional;
use cel::{Context, ExecutionError, Program, Value as CelValue};
use serde_json::Value;

use super::super::error::{ErrorKind, FieldError, go_json};
use super::super::node::{Rule, SchemaRef};
use super::super::path::Path;
use super::Place;
use super::checker;
use super::field_path::{self, Step};
use super::library;
use super::types::Ty;
use super::values::convert;

/// The longest message that an expression may make.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// A rule, ready to run.
#[derive(Debug)]
pub(super) struct Compiled {
    rule: Rule,
    program: Result<Program, String>,
    message: Option<Result<Program, String>>,
    pub(super) uses_old_self: bool,
    field_path: Vec<Step>,
}

impl Compiled {
    pub(super) fn new(rule: &Rule, schema: SchemaRef<'_>, resource: bool) -> Self {
        let program = compile(rule, &rule.expression, schema, resource, &Goal::RULE);
        let message = rule
            .message_expression
            .as_ref()
            .map(|source| compile(rule, source, schema, resource, &Goal::MESSAGE));
        let uses_old_self = program
            .as_ref()
            .is_ok_and(|program| program.references().has_variable("oldSelf"));
        let field_path = rule
            .field_path
            .as_ref()
            .and_then(|path| field_path::resolve(path, schema));
        Self {
            rule: rule.clone(),
            program,
            message,
            uses_old_self,
            field_path: field_path.unwrap_or_default(),
        }
    }

    pub(super) fn rule_problem(&self) -> Option<&str> {
        self.program.as_ref().err().map(String::as_str)
    }

    pub(super) fn message_problem(&self) -> Option<&str> {
        let message = self.message.as_ref()?;
        message.as_ref().err().map(String::as_str)
    }

    /// The rule in an error: its message, or else itself.
    fn name(&self) -> &str {
        match &self.rule.message {
            Some(message) => message.trim(),
            None => self.rule.expression.trim(),
        }
    }

    fn verdict(&self, context: &Context<'_, '_>) -> String {
        let made = match &self.message {
            Some(Ok(program)) => program.execute(context).ok(),
            _ => None,
        };
        if let Some(CelValue::String(text)) = made {
            let text = text.trim();
            if !text.is_empty() && !text.contains('\n') && text.len() <= MAX_MESSAGE_BYTES {
                return text.to_owned();
            }
        }
        match &self.rule.message {
            Some(message) => message.trim().to_owned(),
            None => format!("failed rule: {}", self.name()),
        }
    }

    fn refusal(&self, path: &Path<'_>, kind: &str, detail: String) -> FieldError {
        let mut field = path.to_string();
        for step in &self.field_path {
            match step {
                Step::Field(name) if field.is_empty() => field.push_str(name),
                Step::Field(name) => {
                    field.push('.');
                    field.push_str(name);
                }
                Step::Key(key) => {
                    field.push('[');
                    field.push_str(key);
                    field.push(']');
                }
            }
        }
        match self.rule.reason.as_deref() {
            Some("FieldValueForbidden") => FieldError::forbidden(field, detail),
            Some("FieldValueRequired") => FieldError::required(field, detail),
            Some("FieldValueDuplicate") => FieldError::duplicate(field, kind),
            _ => FieldError::invalid(field, kind, detail),
        }
    }
}

/// What an expression must give, and how the server words it if it does not.
struct Goal {
    prefix: &'static str,
    wrong_type: &'static str,
    text: bool,
}

impl Goal {
    const RULE: Self = Self {
        prefix: "compilation failed: ",
        wrong_type: "cel expression must evaluate to a bool",
        text: false,
    };
    const MESSAGE: Self = Self {
        prefix: "messageExpression compilation failed: ",
        wrong_type: "messageExpression must evaluate to a string",
        text: true,
    };
}

fn compile(
    rule: &Rule,
    source: &str,
    schema: SchemaRef<'_>,
    resource: bool,
    goal: &Goal,
) -> Result<Program, String> {
    let environment = library::environment()?;
    let program = environment.compile(source).map_err(|errors| {
        let text = errors.to_string().replace("\n| ", "\n | ");
        format!("{}{text}", goal.prefix)
    })?;
    let own = Ty::of(schema, resource).unwrap_or(Ty::Dyn);
    let old = if rule.optional_old_self == Some(true) {
        Ty::Optional(Box::new(own.clone()))
    } else {
        own.clone()
    };
    let ty = checker::check(&program, vec![("self", own), ("oldSelf", old)])
        .map_err(|problem| format!("{}{problem}", goal.prefix))?;
    let fits = match ty {
        Ty::Bool => !goal.text,
        Ty::String => goal.text,
        _ => false,
    };
    if fits {
        Ok(program)
    } else {
        Err(goal.wrong_type.to_owned())
    }
}

/// Runs all rules of a place on a value.
pub(super) fn run(
    rules: &[Compiled],
    value: &Value,
    old: Option<&Value>,
    unchanged: bool,
    place: Place<'_>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let kind = place
        .schema
        .kind()
        .map_or("", super::super::node::Kind::name);
    let environment = match library::environment() {
        Ok(environment) => environment,
        Err(problem) => {
            errors.push(FieldError::internal(path.to_string(), problem));
            return;
        }
    };
    let own = convert(value, place.schema, place.resource);
    let before = old.map(|old| convert(old, place.schema, place.resource));
    for compiled in rules {
        let program = match &compiled.program {
            Ok(program) => program,
            Err(problem) => {
                let detail = format!("rule compile error: {problem}");
                errors.push(FieldError::invalid(path.to_string(), kind, detail));
                continue;
            }
        };
        let optional = compiled.rule.optional_old_self == Some(true);
        if compiled.uses_old_self && old.is_none() && !optional {
            continue;
        }
        let mut context = Context::with_env(Arc::clone(environment));
        context.add_variable_as_val("self", own.clone_as_boxed());
        if optional {
            let before = before.as_ref().map(|before| before.clone_as_boxed());
            context.add_variable_as_val("oldSelf", Box::new(CelOptional::from(before)));
        } else if let Some(before) = &before {
            context.add_variable_as_val("oldSelf", before.clone_as_boxed());
        }
        let error = match program.execute(&context) {
            Ok(CelValue::Bool(true)) => continue,
            Ok(_) => compiled.refusal(path, kind, compiled.verdict(&context)),
            Err(error) => {
                let detail = failure(&error, compiled.name());
                errors.push(FieldError::invalid(path.to_string(), kind, detail));
                continue;
            }
        };
        // A rule about the state alone is not held against what did not change.
        if compiled.uses_old_self || !unchanged {
            errors.push(error);
        }
    }
}

/// An error at run time, in the words of cel-go.
fn failure(error: &ExecutionError, rule: &str) -> String {
    let text = match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(index) => match index {
            CelValue::Int(index) => format!("index out of bounds: {index}"),
            _ => "index out of bounds".to_owned(),
        },
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::InternalError(text) if text != "no such overload" => text.clone(),
        ExecutionError::FunctionError { function, message } => {
            let conversion = message.contains("parse error") || message.contains("onversion error");
            if conversion {
                format!("type conversion error from 'string' to '{function}'")
            } else {
                message.clone()
            }
        }
        ExecutionError::NoSuchOverload(_)
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::InternalError(_) => {
            return format!(
                "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
            );
        }
        other => other.to_string(),
    };
    format!("{text} evaluating rule: {rule}")
}

/// A field error of a rule that could not be compiled; the value is the rule as the server holds it.
pub(super) fn compile_error(field: String, rule: &Rule, detail: &str) -> FieldError {
    let text = |text: Option<&String>| go_json(&text.cloned().unwrap_or_default().into());
    let shown = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text(Some(&rule.expression)),
        text(rule.message.as_ref()),
        text(rule.message_expression.as_ref()),
        rule.reason.clone().map_or(Value::Null, Value::from),
        text(rule.field_path.as_ref()),
        rule.optional_old_self.map_or(Value::Null, Value::from),
    );
    // The fields stand in the order of the Go type, which a JSON value would not keep.
    FieldError::new(
        ErrorKind::Invalid,
        field,
        None,
        format!("{shown}: {detail}"),
    )
}
