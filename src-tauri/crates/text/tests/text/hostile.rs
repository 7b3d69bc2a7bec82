//! Templates that mean harm, or were written by accident: each ends in an error, soon, with little memory.

use crate::vocabulary::byte_level;
use serde_json::json;
use text::{ChatMessage, ChatTemplate, RenderOptions, Role, TextError};

fn outcome(source: &str) -> Result<String, TextError> {
    let template = ChatTemplate::from_config(&json!({ "chat_template": source }))?.unwrap();
    let messages = [ChatMessage::new(Role::User, "hi"), ChatMessage::new(Role::Assistant, "ho")];
    template.render(&messages, &RenderOptions::default())
}

/// Loops often enough for forty doublings, with the doubling in a namespace.
fn doubling(first: &str, step: &str) -> String {
    format!(
        "{{% set ns = namespace(x={first}) %}}{{% for i in range(40) %}}{{% set ns.x = {step} %}}{{% endfor %}}{{{{ ns.x | length }}}}"
    )
}

#[test]
fn texts_and_lists_that_double_are_stopped_before_they_fill_the_memory() {
    let sources = [
        doubling("'abc'", "ns.x ~ ns.x"),
        doubling("'abc'", "ns.x + ns.x"),
        doubling("'abc'", "ns.x * 2"),
        doubling("'abc'", "2 * ns.x"),
        doubling("'abc'", "ns.x | replace('b', ns.x)"),
        doubling("'abc'", "ns.x.replace('b', ns.x ~ 'b')"),
        doubling("'abc'", "[ns.x, 'b', ns.x] | join"),
        doubling("'abc'", "ns.x.join([1, 2, 3])"),
        "{{ ('\\n' * 99999) | indent(99999, true, true) }}".to_owned(),
        doubling("[1]", "ns.x + ns.x"),
        doubling("[1]", "ns.x * 2"),
        doubling("[1]", "[ns.x, ns.x]"),
        doubling("{}", "{'a': ns.x, 'b': ns.x}"),
        doubling("{}", "dict(a=ns.x, b=ns.x)"),
        doubling("[1]", "(ns.x, ns.x)"),
        doubling("'a'", "[ns.x, ns.x] | string"),
        doubling("'a'", "[ns.x, ns.x] | tojson"),
        doubling("[1]", "ns"),
        "{% set x = [[1]] %}".to_owned()
            + &"{% set x = x | map('batch', 1) | list %}".repeat(9_000)
            + "{{ x }}",
        "{% set x = 'abc' %}".to_owned() + &"{% set x = x ~ x %}".repeat(40),
        "{% set x = 'abc' %}".to_owned() + &"{% set x %}{{ x }}{{ x }}{% endset %}".repeat(40),
        "{% set x %}{% for i in range(100000) %}".to_owned()
            + &"y".repeat(100_000)
            + "{% endfor %}{% endset %}",
        "{% macro m(x, n) %}{{ m(x ~ x, n - 1) if n else x }}{% endmacro %}{{ m('abc', 40) }}".to_owned(),
        "{{ 'x' * 99999999 }}".to_owned(),
        "{{ [1] * 99999999 }}".to_owned(),
        "{{ ('x' * 9999999).replace('x', 'x' * 9999999) }}".to_owned(),
        "{{ [1] | batch(999999999, 0) | list }}".to_owned(),
        "{{ [1] | slice(999999999, 0) | list }}".to_owned(),
        "{{ [1] | tojson(indent=999999999) }}".to_owned(),
        "{{ range(99999) | map('string') | join('x' * 9999) }}".to_owned(),
    ];
    for source in sources {
        let error = outcome(&source).unwrap_err();
        let is_stopped = matches!(
            error,
            TextError::TemplateMemory { .. }
                | TextError::TemplateOutput { .. }
                | TextError::TemplateEndless { .. }
        );
        assert!(is_stopped, "{}: {error:?}", &source[..source.len().min(200)]);
    }
}

#[test]
fn constants_that_grow_while_the_template_is_compiled_are_refused() {
    for constant in
        ["'x' * 99999999", "('x') * (99999999)", "99999999 * 'x'", "'x' * - -99999999", "[1] * 99999999"]
    {
        let error = outcome(&format!("a\n{{{{ {constant} }}}}").repeat(30)).unwrap_err();
        assert!(matches!(error, TextError::TemplateTooLong { line: 3..=6 }), "{constant}: {error:?}");
    }
    assert_eq!(outcome(&"{% set n = 2 %}{{ 'a' * n }}".repeat(30)).unwrap(), "aa".repeat(30));
}

#[test]
fn wide_formats_are_refused() {
    for source in
        ["{{ '%999999999d' | format(1) }}", "{{ '{:>999999999}'.format(1) }}", "{{ '{:>{}}'.format(1, 9) }}"]
    {
        assert!(matches!(outcome(source), Err(TextError::TemplateFailed { line: 1, .. })), "{source}");
    }
    assert_eq!(outcome("{{ '%5d' | format(1) }}{{ '{:>3}'.format(1) }}").unwrap(), "    1  1");
}

#[test]
fn a_container_that_holds_itself_is_refused_where_it_is_made() {
    for source in [
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns ~ '' }}",
        "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{{ a == b }}",
        "{% set a = namespace() %}{% set a.b = namespace() %}{% set a.b.c = a %}{{ a | tojson }}",
        "{% set a = namespace() %}{% set b = {'a': a} %}{{ b | tojson }}",
        "{% set a = namespace() %}{% set b = dict(a=a) %}{{ b | tojson }}",
    ] {
        let error = outcome(source).unwrap_err();
        assert!(matches!(error, TextError::TemplateMemory { .. }), "{source}: {error:?}");
    }
}

#[test]
fn a_lazy_sequence_over_a_namespace_cannot_come_to_hold_itself() {
    for take in ["ns | items", "ns.items()", "ns.values()", "[ns.items()]", "ns.values()[:]"] {
        let source = format!(
            "{{% set ns = namespace(x=1) %}}{{% set ns.x = {take} %}}{{% set ns.y = {take} %}}{{{{ ns.x == ns.y }}}}{{{{ ns.x | tojson | length > 0 }}}}"
        );
        assert_eq!(outcome(&source).unwrap(), "FalseTrue", "{take}");
    }
}

#[test]
fn endless_recursion_and_loops_end() {
    for source in [
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ b }}{% endfor %}{% endfor %}",
        "{% block a %}{{ self.a() }}{% endblock %}",
        "{% include 'chat_template' %}",
        "{% extends 'chat_template' %}",
        "{% from 'chat_template' import x %}",
    ] {
        let error = outcome(source).unwrap_err();
        assert!(
            matches!(
                error,
                TextError::TemplateFailed { .. }
                    | TextError::TemplateEndless { .. }
                    | TextError::TemplateMemory { .. }
                    | TextError::TemplateSyntax { .. }
                    | TextError::TemplateSlow { .. }
            ),
            "{source}: {error:?}"
        );
    }
}

#[test]
fn deep_nesting_in_the_source_is_refused() {
    let deep = |open: &str, middle: &str, close: &str, times: usize| {
        open.repeat(times) + middle + &close.repeat(times)
    };
    let in_tag = |expression: String| format!("a\n{{{{ {expression} }}}}");
    for times in [140, 1_000, 100_000] {
        for source in [
            in_tag(deep("(", "1", ")", times)),
            in_tag(deep("[", "1", "]", times)),
            in_tag(deep("{'a':", "1", "}", times)),
            in_tag(deep("not ", "1", "", times)),
            in_tag(deep("-", "1", "", times)),
            in_tag(deep("1 + ", "1", "", times)),
            in_tag(deep("1 ~ ", "1", "", times)),
            in_tag(deep("1 if 1 else ", "1", "", times)),
            in_tag(deep("", "a", ".a", times)),
            in_tag(deep("", "a", "[0]", times)),
            in_tag(deep("", "a", "()", times)),
            in_tag(deep("", "a", "|trim", times)),
            in_tag(deep("a(", "a", ")", times)),
            deep("{% if 1 %}", "1", "{% endif %}", times),
            deep("{% for a in [1] %}", "1", "{% endfor %}", times),
            deep("{% if 0 %}", "", "{% elif 0 %}", times) + "{% endif %}",
            deep("{% macro a() %}", "1", "{% endmacro %}", times),
            deep("{% set x %}", "1", "{% endset %}", times),
        ] {
            // Shallow ones may render; none may exhaust the stack.
            let outcome = outcome(&source);
            let is_refused = matches!(
                outcome,
                Err(TextError::TemplateTooLong { .. }
                    | TextError::TemplateSyntax { .. }
                    | TextError::TemplateFailed { .. })
            );
            assert!(is_refused || times < 100_000, "{}: {outcome:?}", &source[..60]);
        }
    }
}

#[test]
fn what_does_not_exist_is_named_with_its_line() {
    for (source, word) in [
        ("a\n{{ 'a' | no_such_filter }}", "no_such_filter"),
        ("a\n{{ no_such_function() }}", "no_such_function"),
        ("a\n{{ 'a' is no_such_test }}", "no_such_test"),
        ("a\n{{ 'a'.no_such_method() }}", "no_such_method"),
    ] {
        let error = outcome(source).unwrap_err();
        let TextError::TemplateFailed { line: 2, source } = error else { panic!("{error:?}") };
        assert!(source.to_string().contains(word), "{source}");
    }
}

#[test]
fn a_file_that_makes_the_tokenizer_library_panic_or_hang_is_refused() {
    let folder = byte_level();
    let path = folder.path().join("tokenizer.json");
    let whole: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let unusable = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut json = whole.clone();
        change(&mut json);
        folder.write("tokenizer.json", &json);
        matches!(text::Tokenizer::from_dir(folder.path()), Err(TextError::TokenizerFile { .. }))
    };
    // A merge is cut by the length of a prefix that its second half does not have.
    assert!(unusable(&|json| json["model"]["continuing_subword_prefix"] = json!("######")));
    // Everything that keeps a number for each token would be as long as this.
    assert!(unusable(&|json| json["model"]["vocab"]["th"] = json!(u32::MAX)));
    assert!(!unusable(&|_| ()), "as it was, the file is fine");
    // Half a minute of work, growing with the square.
    let long = crate::vocabulary::added(999, &"TemplateProcessing".repeat(2048), true);
    assert!(unusable(&|json| json["added_tokens"].as_array_mut().unwrap().push(long.clone())));
    // The library expects a decoder to be JSON before it has looked.
    let text = whole.to_string();
    let cut = text.find("\"decoder\"").unwrap() + 20;
    std::fs::write(&path, &text[..cut]).unwrap();
    assert!(matches!(text::Tokenizer::from_dir(folder.path()), Err(TextError::TokenizerFile { .. })));
}
