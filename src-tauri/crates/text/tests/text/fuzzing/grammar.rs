//! Templates written from Jinja's grammar, with a liking for what grows.

use super::mutate::Random;

/// Tags that hostile templates are made of.
pub const PIECES: [&str; 16] = [
    "{% set ns.x = ns.x ~ ns.x %}",
    "{% set ns.x = [ns.x, ns.x] %}",
    "{% set ns.x = ns %}",
    "{% set ns.x = ns.items() %}",
    "{% for a in range(99999) %}",
    "{% endfor %}",
    "{{ ns.x | tojson }}",
    "{{ ns.x == ns.y }}",
    "{% set messages = messages + messages %}",
    "{% macro m(a) %}{{ m(a ~ a) }}{{ m(a) }}{% endmacro %}{{ m('a') }}",
    "{{ content | indent(99999, true, true) }}",
    "{{ messages | string * 9999 }}",
    "{% if messages | map('tojson') | join(ns.x | string) %}",
    "{% endif %}",
    "{{ raise_exception(messages) }}",
    "{% generation %}",
];

const ATOMS: [&str; 22] = [
    "messages",
    "messages[0]",
    "messages[0].content",
    "messages[0]['role']",
    "messages[::-1]",
    "messages[-1:]",
    "ns",
    "ns.x",
    "ns.y",
    "x",
    "1",
    "-1",
    "2.5",
    "99999",
    "'a'",
    "'日本\\n'",
    "[1, 'b']",
    "{'a': [2]}",
    "none",
    "true",
    "loop.index",
    "range(20)",
];
const OPERATORS: [&str; 16] =
    ["~", "+", "*", "-", "/", "//", "%", "**", "==", "!=", "<", "in", "not in", "and", "or", "~"];
const FILTERS: [&str; 30] = [
    "length",
    "string",
    "tojson",
    "tojson(indent=3)",
    "join(x)",
    "join",
    "list",
    "trim",
    "upper",
    "replace('a', x)",
    "indent(9)",
    "batch(3, x)",
    "slice(3)",
    "groupby('role')",
    "items",
    "dictsort",
    "map('batch', 2)",
    "map(attribute='content')",
    "selectattr('role', 'equalto', 'user')",
    "sort",
    "unique",
    "reverse",
    "first",
    "last",
    "default(x)",
    "int",
    "float",
    "round",
    "pprint",
    "e",
];
const METHODS: [&str; 16] = [
    "split('a')",
    "split()",
    "strip()",
    "replace('a', 'aa')",
    "join([x, x])",
    "items()",
    "get('content')",
    "keys()",
    "startswith(x)",
    "title()",
    "splitlines(true)",
    "rsplit('a', 1)",
    "find('a')",
    "format(x)",
    "partition('a')",
    "zfill(99)",
];

/// A template that mostly parses.
pub fn template(random: &mut Random) -> String {
    let mut out = String::from("{% set ns = namespace(x='ab', y=[1]) %}{% set x = 'cd' %}");
    statements(random, 4, &mut out);
    out
}

fn statements(random: &mut Random, depth: usize, out: &mut String) {
    for _ in 0..=random.below(5) {
        let expression = expression(random, 4);
        let inner = |random: &mut Random, out: &mut String| {
            if depth > 0 {
                statements(random, depth - 1, out);
            }
        };
        match random.below(9) {
            0 => out.push_str(&format!("{{{{ {expression} }}}}")),
            1 => out.push_str(&format!("{{% set ns.{} = {expression} %}}", ["x", "y"][random.below(2)])),
            2 => out.push_str(&format!("{{% set x = {expression} %}}")),
            3 | 4 => {
                let count = [2, 40, 900, 99_999][random.below(4)];
                out.push_str(&format!("{{% for i in range({count}) %}}"));
                inner(random, out);
                out.push_str("{% endfor %}");
            }
            5 => {
                out.push_str(&format!("{{% for m in {expression} %}}"));
                inner(random, out);
                out.push_str(
                    ["{% endfor %}", "{% break %}{% endfor %}", "{% else %}{{ x }}{% endfor %}"]
                        [random.below(3)],
                );
            }
            6 => {
                out.push_str(&format!("{{%- if {expression} -%}}"));
                inner(random, out);
                out.push_str("{% else %}b{% endif %}");
            }
            7 => {
                out.push_str("{% macro m(x, y=2) %}");
                inner(random, out);
                out.push_str(&format!("{{% endmacro %}}{{{{ m({expression}) }}}}"));
            }
            _ => {
                out.push_str("{% set x %}");
                inner(random, out);
                out.push_str("{{ x }}{% endset %}");
            }
        }
    }
}

fn expression(random: &mut Random, depth: usize) -> String {
    if depth == 0 || random.below(4) == 0 {
        return (*random.pick(&ATOMS)).to_owned();
    }
    let inner = expression(random, depth - 1);
    match random.below(8) {
        0 | 1 => format!("({inner}) | {}", random.pick(&FILTERS)),
        2 => format!("({inner}).{}", random.pick(&METHODS)),
        3 | 4 => format!("({inner}) {} ({})", random.pick(&OPERATORS), expression(random, depth - 1)),
        5 => format!("[{inner}, {}]", expression(random, depth - 1)),
        6 => format!("{{'a': {inner}, 'b': {inner}}}"),
        _ => format!("({inner}) if ({}) else x", expression(random, depth - 1)),
    }
}
