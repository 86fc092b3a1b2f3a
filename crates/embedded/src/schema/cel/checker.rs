//! Static types of rules: a rule that names a field that is not there, or compares a number with a text, is refused
//! when the CRD is posted.
//!
//! The `cel` crate parses and evaluates but does not check types. This checker knows the types of the schema, of the
//! operators and of the functions; where it does not know, it says `dyn` and lets the rule pass.

use cel::Program;
use cel::common::ast::operators as op;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, MapEntryExpr, SelectExpr,
};

use super::super::formats::parse_go_duration;
use super::super::pattern;
use super::functions;
use super::types::Ty;

/// What is wrong, and with which expression.
#[derive(Debug)]
struct Issue {
    expression: u64,
    message: String,
}

/// The type of a program's result, or the compiler's complaint as cel-go prints it.
pub(crate) fn check<'a>(
    program: &Program,
    variables: Vec<(&str, Ty<'a>)>,
) -> Result<Ty<'a>, String> {
    let mut checker = Checker {
        scope: variables
            .into_iter()
            .map(|(name, ty)| (name.to_owned(), ty))
            .collect(),
        issues: Vec::new(),
    };
    let ty = checker.infer(program.expression());
    if checker.issues.is_empty() {
        return Ok(ty);
    }
    let texts: Vec<String> = checker
        .issues
        .iter()
        .map(|issue| render(program, issue))
        .collect();
    Err(texts.join("\n"))
}

/// `ERROR: <input>:1:5: message`, the line, and an arrow.
fn render(program: &Program, issue: &Issue) -> String {
    let info = program.source_info();
    let offset = info
        .offset_for(issue.expression)
        .map_or(0, |(start, _)| start);
    let offset = usize::try_from(offset).unwrap_or_default();
    let before = info.source.get(..offset).unwrap_or_default();
    let line = before.matches('\n').count();
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count();
    let text = info.source.lines().nth(line).unwrap_or_default();
    format!(
        "ERROR: <input>:{}:{}: {}\n | {text}\n | {}^",
        line + 1,
        column + 1,
        issue.message,
        ".".repeat(column)
    )
}

struct Checker<'a> {
    scope: Vec<(String, Ty<'a>)>,
    issues: Vec<Issue>,
}

impl<'a> Checker<'a> {
    fn complain(&mut self, expression: &IdedExpr, message: String) -> Ty<'a> {
        self.issues.push(Issue {
            expression: expression.id,
            message,
        });
        Ty::Dyn
    }

    fn no_overload(&mut self, expression: &IdedExpr, name: &str, signature: &str) -> Ty<'a> {
        self.complain(
            expression,
            format!("found no matching overload for '{name}' applied to '{signature}'"),
        )
    }

    fn infer(&mut self, expression: &IdedExpr) -> Ty<'a> {
        match &expression.expr {
            Expr::Unspecified | Expr::Struct(_) => Ty::Dyn,
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Ty::Bool,
                LiteralValue::Bytes(_) => Ty::Bytes,
                LiteralValue::Double(_) => Ty::Double,
                LiteralValue::Int(_) => Ty::Int,
                LiteralValue::Null => Ty::Null,
                LiteralValue::String(_) => Ty::String,
                LiteralValue::UInt(_) => Ty::Uint,
            },
            Expr::Ident(name) => self.identifier(expression, name),
            Expr::Select(select) => self.select(expression, select),
            Expr::Call(call) => self.call(expression, call),
            Expr::List(list) => {
                let first = self.same(list.elements.iter());
                Ty::List(Box::new(first))
            }
            Expr::Map(map) => {
                let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => Some(entry),
                    EntryExpr::StructField(_) => None,
                });
                let entries: Vec<&MapEntryExpr> = entries.collect();
                let key = self.same(entries.iter().map(|entry| &entry.key));
                let value = self.same(entries.iter().map(|entry| &entry.value));
                Ty::Map(Box::new(key), Box::new(value))
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    /// The type that the parts of a literal share; the server does not take mixed ones.
    fn same<'e>(&mut self, parts: impl Iterator<Item = &'e IdedExpr>) -> Ty<'a> {
        let mut first = None;
        for part in parts {
            let ty = self.infer(part);
            let first = first.get_or_insert_with(|| ty.clone());
            if !ty.agrees(first) {
                let message = format!("expected type '{first}' but found '{ty}'");
                self.complain(part, message);
            }
        }
        first.unwrap_or(Ty::Dyn)
    }

    fn identifier(&mut self, expression: &IdedExpr, name: &str) -> Ty<'a> {
        let bare = name.strip_prefix('.').unwrap_or(name);
        let found = self.scope.iter().rev().find(|(known, _)| known == bare);
        if let Some((_, ty)) = found {
            return ty.clone();
        }
        if functions::is_type(bare) {
            return Ty::Type;
        }
        self.complain(
            expression,
            format!("undeclared reference to '{bare}' (in container '')"),
        )
    }

    fn select(&mut self, expression: &IdedExpr, select: &SelectExpr) -> Ty<'a> {
        let operand = self.infer(&select.operand);
        let field = operand.field(&select.field);
        let ty = match (&operand, field) {
            (_, Some(ty)) => ty,
            (Ty::Object(..) | Ty::Metadata | Ty::Optional(_), None) => {
                self.complain(expression, format!("undefined field '{}'", select.field))
            }
            (other, None) => {
                let message = format!("type '{other}' does not support field selection");
                self.complain(expression, message)
            }
        };
        if select.test { Ty::Bool } else { ty }
    }

    /// Literals that can only fail are refused at once.
    fn check_literals(&mut self, call: &CallExpr) {
        let argument = match (call.func_name.as_str(), &call.target) {
            ("matches", None) => call.args.get(1),
            ("matches", Some(_)) | ("duration" | "timestamp", None) => call.args.first(),
            _ => None,
        };
        let Some(argument) = argument else { return };
        let Expr::Literal(LiteralValue::String(text)) = &argument.expr else {
            return;
        };
        let text = text.inner();
        let valid = match call.func_name.as_str() {
            "matches" => pattern::compile(text).is_ok(),
            "duration" => parse_go_duration(text).is_some(),
            _ => text.parse::<jiff::Timestamp>().is_ok(),
        };
        if !valid {
            let message = format!("invalid {} argument", call.func_name);
            self.complain(argument, message);
        }
    }

    fn call(&mut self, expression: &IdedExpr, call: &CallExpr) -> Ty<'a> {
        self.check_literals(call);
        if let Some(target) = &call.target {
            if let Some(name) = self.qualified(target, &call.func_name) {
                let args: Vec<Ty<'a>> = call.args.iter().map(|arg| self.infer(arg)).collect();
                return self.global(expression, &name, &args);
            }
            let target = self.infer(target);
            if let ("format", [list]) = (call.func_name.as_str(), call.args.as_slice())
                && let Expr::List(list) = &list.expr
            {
                // The arguments of a format may be of different types.
                for item in &list.elements {
                    self.infer(item);
                }
                let args = [Ty::List(Box::new(Ty::Dyn))];
                return self.member(expression, &call.func_name, &target, &args);
            }
            let args: Vec<Ty<'a>> = call.args.iter().map(|arg| self.infer(arg)).collect();
            return self.member(expression, &call.func_name, &target, &args);
        }
        let args: Vec<Ty<'a>> = match (call.func_name.as_str(), call.args.as_slice()) {
            // The second argument is the name of a field, not an expression.
            (op::OPT_SELECT, [operand, field]) => {
                let operand = self.infer(operand);
                return self.optional_select(expression, &operand, field);
            }
            (_, args) => args.iter().map(|arg| self.infer(arg)).collect(),
        };
        if matches!(call.func_name.as_str(), op::LOGICAL_AND | op::LOGICAL_OR) {
            for (ty, arg) in args.iter().zip(&call.args) {
                if !matches!(ty, Ty::Bool | Ty::Dyn) {
                    let message = format!("expected type 'bool' but found '{ty}'");
                    self.complain(arg, message);
                }
            }
            return Ty::Bool;
        }
        match functions::operator(&call.func_name, &args) {
            Some(Some(ty)) => ty,
            Some(None) => {
                let signature = format!("({})", list(&args));
                self.no_overload(expression, &call.func_name, &signature)
            }
            None => self.global(expression, &call.func_name, &args),
        }
    }

    /// `math.abs` and the like: a name with dots that is a function and not a field of a variable.
    fn qualified(&self, target: &IdedExpr, function: &str) -> Option<String> {
        let Expr::Ident(namespace) = &target.expr else {
            return None;
        };
        if self.scope.iter().any(|(known, _)| known == namespace) {
            return None;
        }
        let name = format!("{namespace}.{function}");
        functions::is_global(&name).then_some(name)
    }

    fn optional_select(
        &mut self,
        expression: &IdedExpr,
        operand: &Ty<'a>,
        field: &IdedExpr,
    ) -> Ty<'a> {
        let Expr::Literal(LiteralValue::String(name)) = &field.expr else {
            return Ty::Dyn;
        };
        match operand.field(name.inner()) {
            Some(optional @ Ty::Optional(_)) => optional,
            Some(ty) => Ty::Optional(Box::new(ty)),
            None => self.complain(expression, format!("undefined field '{}'", name.inner())),
        }
    }

    fn global(&mut self, expression: &IdedExpr, name: &str, args: &[Ty<'a>]) -> Ty<'a> {
        match functions::global(name, args) {
            Some(Some(ty)) => ty,
            Some(None) => self.no_overload(expression, name, &format!("({})", list(args))),
            None => self.complain(
                expression,
                format!("undeclared reference to '{name}' (in container '')"),
            ),
        }
    }

    fn member(
        &mut self,
        expression: &IdedExpr,
        name: &str,
        target: &Ty<'a>,
        args: &[Ty<'a>],
    ) -> Ty<'a> {
        match functions::member(name, target, args) {
            Some(Some(ty)) => ty,
            Some(None) => {
                let signature = format!("{target}.({})", list(args));
                self.no_overload(expression, name, &signature)
            }
            None => self.complain(
                expression,
                format!("undeclared reference to '{name}' (in container '')"),
            ),
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Ty<'a> {
        let range = self.infer(&comprehension.iter_range);
        let (first, second) = match &range {
            Ty::List(item) => match comprehension.iter_var2 {
                Some(_) => (Ty::Int, (**item).clone()),
                None => ((**item).clone(), Ty::Dyn),
            },
            Ty::Map(key, value) => ((**key).clone(), (**value).clone()),
            Ty::Dyn => (Ty::Dyn, Ty::Dyn),
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.complain(&comprehension.iter_range, message);
                (Ty::Dyn, Ty::Dyn)
            }
        };
        let start = self.infer(&comprehension.accu_init);
        let depth = self.scope.len();
        self.scope
            .push((comprehension.accu_var.clone(), start.clone()));
        self.scope.push((comprehension.iter_var.clone(), first));
        if let Some(name) = &comprehension.iter_var2 {
            self.scope.push((name.clone(), second));
        }
        self.infer(&comprehension.loop_cond);
        let step = self.infer(&comprehension.loop_step);
        self.scope.truncate(depth);
        // An empty list to begin with says nothing of its items; what is added to it does.
        let accumulated = if matches!(start, Ty::Dyn | Ty::List(_) | Ty::Map(..)) {
            step
        } else {
            start
        };
        self.scope
            .push((comprehension.accu_var.clone(), accumulated));
        let result = self.infer(&comprehension.result);
        self.scope.truncate(depth);
        result
    }
}

fn list(types: &[Ty<'_>]) -> String {
    let names: Vec<String> = types.iter().map(ToString::to_string).collect();
    names.join(", ")
}
