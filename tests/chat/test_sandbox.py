# ruff: noqa: E501 (templates are easier to read in a line)
"""Claim: a chat template of a stranger takes little time and memory, whatever it does, and reaches
nothing; one that does more is refused in one line, at export and when a conversation is written."""

from __future__ import annotations

import json

import pytest

from checkpoints import character_tokenizer, write_small_llama
from depth import one_in
from edgespec.chat import sandbox
from edgespec.chat.chat_template import ChatTemplate, TemplateFailedError, TemplateStoppedError
from edgespec.errors import UsageError
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import Source
from edgespec_export.checkpoint.template_texts import usable_template

HELLO = [{"role": "user", "content": "hello"}]
GROW = "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = STEP %}{% endfor %}"

ENDLESS = {
    "nested loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "loops of tests": "{% for i in range(999) %}{% for j in range(99999) if 0 %}{% endfor %}"
    "{{ range(99999) | select('odd') | list | length }}{% endfor %}",
    "macros": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "output": "{% for i in range(99999) %}{{ 'x' * 9000000 }}{% endfor %}",
}
LARGE = {
    "a width": '{{ "%999999999d" % 1 }}',
    "a width that is given": '{{ "%*d" % (999999999, 1) }}',
    "a width of a name": '{{ "%(a)999999999s" % {"a": 1} }}',
    "a precision": '{{ "%.999999999f" % 1.5 }}',
    "a width in braces": "{{ '{:>999999999}'.format(1) }}",
    "a width in braces that is given": "{{ '{:>{w}}'.format(1, w=999999999) }}",
    "a width of a mapping": "{{ '{a:>999999999}'.format_map({'a': 1}) }}",
    "a width of the filter": "{{ '%999999999d' | format(1) }}",
    "a long text": "{{ 'a' * 10**10 }}",
    "a long list": "{{ [0] * 10**10 }}",
    "a long number": "{{ 10 ** (10 ** 8) }}",
    "products": "{% set ns = namespace(x=7**1000) %}{% for i in range(99) %}"
    "{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "padding": "{{ 'x' | center(10**10) }}",
    "padding by a method": "{{ 'x'.ljust(10**10) ~ 'x'.zfill(10**10) }}",
    "an indent": "{{ 'x\n' | indent(10**10, first=true) }}",
    "an indent of lines": "{{ ('\n' * 9999999) | indent('x' * 9999) }}",
    "tabs": "{{ ('\t' * 9999999).expandtabs(10**9) }}",
    "slices": "{{ range(99999) | slice(10**10) | list }}",
    "a batch": "{{ [1] | batch(10**10, 'x') | list }}",
    "replacing": "{{ 'x' | replace('', 'y' * 9000000) }}",
    "replacing by a method": "{{ ('x' * 9000).replace('x', 'y' * 9000) }}",
    "joining": "{{ range(99999) | join('x' * 9999) }}",
    "joining by a method": "{{ ''.join(['x' * 9000000] * 1000) }}",
    "a list of texts": "{{ ['x' * 9000000] * 1000 }}",
    "json": "{{ (['x' * 9000000] * 1000) | tojson }}",
    "an indent of json": "{{ [[[1]]] | tojson(indent=10**9) }}",
    "doubled texts": GROW.replace("STEP", "ns.x ~ ns.x"),
    "added texts": GROW.replace("STEP", "ns.x + ns.x"),
    "formatted texts": GROW.replace("STEP", "'%s%s' % (ns.x, ns.x)"),
    "doubled lists": GROW.replace("STEP", "[ns.x, ns.x]") + "{{ ns.x }}",
    "doubled tuples": GROW.replace("STEP", "(ns.x, ns.x)") + "{{ ns.x | string }}",
    "doubled mappings": GROW.replace("STEP", "{'a': ns.x, 'b': ns.x}") + "{{ ns.x | tojson }}",
    "doubled calls": GROW.replace("STEP", "dict(a=ns.x, b=ns.x)") + "{{ ns.x }}",
    "doubled namespaces": GROW.replace("STEP", "namespace(a=ns.x, b=ns.x)") + "{{ ns.x }}",
    "sums of lists": "{{ [[1], [2]] | sum(start=[]) }}",
    "bytes": "{{ (1).to_bytes(10**10, 'big') }}",
    "encoded": "{{ 'é'.encode() * 10**10 }}",
    "translated": "{{ ('x' * 9999).translate({120: 'y' * 99999}) }}",
    "by a filter of a filter": "{{ [1] | map('center', 10**9) | list }}",
}
NO_TEMPLATES = {
    "a date": "{{ strftime_now('%999999999Y') }}",
    "random words": "{{ lipsum(n=100000) }}",
    "chance": "{{ [1, 2] | random }}",
    "files": "{% include '/etc/passwd' %}",
    "classes": "{{ ''.__class__.__mro__ }}",
    "globals": "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "hidden names": "{% set ns = namespace(_x=1) %}{{ ns._x }}",
    "changes": "{{ messages.append(1) }}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "depth": "{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}",
    "length": "x" * 1_000_001,
}


@one_in(2)
@pytest.mark.parametrize("name", [*ENDLESS, *LARGE])
def test_a_template_that_takes_too_much_is_stopped(name, monkeypatch):
    monkeypatch.setattr(sandbox, "MAX_SECONDS", 0.5)
    monkeypatch.setattr(sandbox, "MAX_STEPS", 20_000)
    template = ChatTemplate({**ENDLESS, **LARGE}[name])
    with pytest.raises(TemplateStoppedError, match="chat template was stopped: it ") as error:
        template.render(HELLO)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("name", NO_TEMPLATES)
def test_a_template_that_asks_for_what_is_not_there_is_refused(name):
    with pytest.raises(TemplateFailedError) as error:
        ChatTemplate(NO_TEMPLATES[name]).render(HELLO)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ '%-8s|' % 'ab' }}{{ '{:>5}'.format(1) }}", "ab      |    1"),
        ("{{ 'x' | center(9) }}{{ 'x'.ljust(3) }}|", "    x    x  |"),
        (
            "{{ [1, 'a', {'b': none}] }}{{ {'a': 1}.items() | list }}",
            "[1, 'a', {'b': None}][('a', 1)]",
        ),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{{ 'a\nb' | indent(2) }}{{ 'a.b' | replace('.', '..') }}", "a\n  ba..b"),
        ("{{ 2 ** 10 * 3 }}{{ [1] * 2 + [3] }}{{ 'ab' * 2 }}", "3072[1, 1, 3]abab"),
        ("{% for m in messages %}{{ m.content | upper }}{% break %}{% endfor %}", "HELLO"),
        (
            "{% generation %}{{ messages[0].content.split('l') | join('-') }}{% endgeneration %}",
            "he--o",
        ),
    ],
)
def test_what_templates_need_is_there(template, text):
    assert ChatTemplate(template).render(HELLO) == text


def test_a_long_conversation_is_no_endless_one():
    template = ChatTemplate(
        "{% for m in messages %}{{ '<' + m.role + '>' + m.content | trim + '\n' }}{% endfor %}"
    )
    assert len(template.render(HELLO * 10_000)) > 100_000


@pytest.mark.parametrize("template", [ENDLESS["nested loops"], LARGE["a width"], "{% if %}"])
def test_an_export_leaves_such_a_template_out_and_says_so(tmp_path, caplog, monkeypatch, template):
    monkeypatch.setattr(sandbox, "MAX_STEPS", 20_000)
    folder = write_small_llama(tmp_path / "model", character_tokenizer(272))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    checkpoint = open_checkpoint(Source(folder, "label"))
    assert (checkpoint.chat, checkpoint.template) == (None, None)
    assert "the chat template is left out, so the model does not chat: " in caplog.text


def test_a_template_that_needs_a_system_prompt_is_usable():
    template = ChatTemplate(
        "{% if messages[0].role != 'system' %}{{ raise_exception('Who am I?') }}{% endif %}"
        "{{ messages[1].content }}"
    )
    assert usable_template(template) is template
    with pytest.raises(UsageError, match=r"refuses the messages \(Who am I\?\)"):
        template.render(HELLO)
