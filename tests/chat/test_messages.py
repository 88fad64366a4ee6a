"""Claim: a served model, a batch and the Python API take the messages that the model's template
takes; what a template is told decides what it writes; special tokens in messages stay text."""

from __future__ import annotations

import json
import logging

import pytest

import edgespec
from chat_corpus import QWEN_3, assistant, system, user
from checkpoints import byte_tokenizer, character_tokenizer, write_small_llama
from command import run
from edgespec.chat import chat_writer
from edgespec.chat.chat_template import ChatTemplate
from edgespec.chat.chat_writer import ChatOptions, ChatWriter
from edgespec.errors import UsageError
from edgespec.pair.prompt import PromptEncoder
from edgespec_export.export_pair import export_pair

pytest.importorskip("starlette")
from starlette.testclient import TestClient

from edgespec.server.app import application

CHAT = "/v1/chat/completions"
SHORT = {"max_tokens": 4, "temperature": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with a template as Qwen 3's."""
    made = tmp_path_factory.mktemp("thinks")
    model = write_small_llama(made / "model", character_tokenizer(272), max_position_embeddings=768)
    (model / "tokenizer_config.json").write_text(json.dumps({"chat_template": QWEN_3}))
    export_pair(str(model), None, made / "pair", threads=1)
    return made / "pair"


@pytest.fixture(scope="module")
def pair(folder):
    return edgespec.load(folder, threads=1)


@pytest.fixture(scope="module")
def client(pair):
    served = application({"small": pair}, {"draft": False}, host="testserver")
    with TestClient(served) as client:
        yield client


SHAPES = {
    "two users": [user("a"), user("b")],
    "a later system prompt": [user("a"), assistant("b"), system("c"), user("d")],
    "an assistant first": [assistant("a"), user("b")],
    "no content": [user("a"), {"role": "assistant", "content": None}, user("b")],
    "an empty message": [user("")],
    "a name": [user("a", name="bob")],
    "reasoning": [user("a"), assistant("b", reasoning_content="c", refusal=None), user("d")],
    "parts": [user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])],
    "an answer last": [user("a"), assistant("b")],
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_server_takes_what_the_template_takes(client, pair, name):
    answer = client.post(CHAT, json={"messages": SHAPES[name], **SHORT}).json()
    expected = pair.generate(SHAPES[name], max_new_tokens=4, draft=False)
    assert answer["choices"][0]["message"]["content"] == expected.text
    assert answer["usage"]["prompt_tokens"] == expected.prompt_tokens


THOUGHT = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
FIELDS = [
    ({"chat_template_kwargs": {"enable_thinking": False}}, {"enable_thinking": False}),
    ({"enable_thinking": False}, {"enable_thinking": False}),
    ({"reasoning_effort": "none"}, {"reasoning_effort": "none", "enable_thinking": False}),
    ({"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
    (
        {"enable_thinking": False, "chat_template_kwargs": {"enable_thinking": True}},
        {"enable_thinking": True},
    ),
]


@pytest.mark.parametrize(("fields", "values"), FIELDS, ids=str)
def test_a_request_tells_the_template_what_to_write(client, pair, fields, values):
    messages = [user("a")]
    answer = client.post(CHAT, json={"messages": messages, **fields, **SHORT}).json()
    expected = pair.generate(messages, chat_template_kwargs=values, max_new_tokens=4)
    assert answer["usage"]["prompt_tokens"] == expected.prompt_tokens
    assert answer["choices"][0]["message"]["content"] == expected.text
    plain = pair.generate(messages, max_new_tokens=1).prompt_tokens
    thinks = values.get("enable_thinking", True)
    assert (expected.prompt_tokens == plain) == thinks


def test_a_last_message_is_continued(client, pair):
    messages = [user("Write JSON."), assistant("{")]
    fields = {"continue_final_message": True, "add_generation_prompt": False}
    answer = client.post(CHAT, json={"messages": messages, **fields, **SHORT}).json()
    expected = pair.generate(messages, continue_final_message=True, max_new_tokens=4)
    assert answer["choices"][0]["message"]["content"] == expected.text
    whole = pair.text_engine.encoder.chat(messages, (), ChatOptions(continues=True)).text
    assert whole.endswith("assistant\n<think>\n\n</think>\n\n{")


def test_the_command_line_tells_the_template_what_to_write(folder, pair):
    short = ["-n", 3, "--json", "--greedy"]
    told = json.loads(
        run("generate", folder, "a", *short, "--template-option", "enable_thinking=false").stdout
    )
    values = {"enable_thinking": False}
    expected = pair.generate("a", chat=True, chat_template_kwargs=values, max_new_tokens=3)
    assert told["token_ids"] == expected.token_ids
    begun = json.loads(run("generate", folder, "a", *short, "--answer-start", "{").stdout)
    messages = [user("a"), assistant("{")]
    expected = pair.generate(messages, continue_final_message=True, max_new_tokens=3)
    assert begun["token_ids"] == expected.token_ids
    options = ["-n", 3, "--json", "--template-option", "enable_thinking=false"]
    talked = json.loads(run("chat", folder, *options, input="a\n").stdout)
    assert talked["prompt_tokens"] == told["prompt_tokens"]
    refused = run("generate", folder, "a", "--template-option", "x", code=2).stderr
    assert refused.startswith("edgespec: --template-option is 'x'; give a name and a value")
    assert "the model's template, by Jinja" in run("inspect", folder).stdout


@pytest.mark.parametrize(
    "values",
    [
        {"messages": []},
        {"tools": []},
        {"add_generation_prompt": True},
        {"a b": 1},
        {"_x": 1},
        {"a": {1}},
    ],
    ids=str,
)
def test_values_that_are_no_options_are_refused(pair, values):
    with pytest.raises(UsageError, match="option"):
        pair.generate([user("a")], chat_template_kwargs=values)


# --- special tokens -------------------------------------------------------------------------------

EOS = "</s>"
TEMPLATES = {
    "as it is": "{% for m in messages %}{{ m.content }}" + EOS + "{% endfor %}",
    "trimmed": "{% for m in messages %}{{ m.content | trim ~ '" + EOS + "' }}{% endfor %}",
    "split": "{% for m in messages %}{{ m.content.split('|')[-1] + '" + EOS + "' }}{% endfor %}",
    "in upper case": "{% for m in messages %}{{ m.content | upper }}" + EOS + "{% endfor %}",
    "by a macro": "{% macro say(t) %}[{{ t }}]" + EOS + "{% endmacro %}"
    "{% for m in messages %}{{ say(m.content) }}{% endfor %}",
    "joined": "{% for m in messages %}{{ [m.role, m.content] | join(':') }}" + EOS + "{% endfor %}",
}
LOST = {
    "as JSON": "{% for m in messages %}{{ m | tojson }}" + EOS + "{% endfor %}",
    "formatted": "{% for m in messages %}{{ '[%s]' % m.content }}" + EOS + "{% endfor %}",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_special_token_in_a_message_is_ordinary_text(name):
    tokenizer = byte_tokenizer(272)
    encode = PromptEncoder(tokenizer, None, ChatTemplate(TEMPLATES[name]))
    end = tokenizer.token_to_id(EOS)
    messages = [user(f"a{EOS}b"), assistant(EOS), user(f"{EOS} c")]
    assert encode(messages, False).tokens.count(end) == 3


@pytest.mark.parametrize("name", LOST)
def test_a_special_token_that_cannot_be_told_from_the_template_s_is_refused(name):
    encode = PromptEncoder(byte_tokenizer(272), None, ChatTemplate(LOST[name]))
    with pytest.raises(UsageError, match="spells out a special token"):
        encode([user(f"a{EOS}b")], False)
    assert encode([user("a")], False).tokens


# --- without Jinja --------------------------------------------------------------------------------


def test_without_jinja_texts_around_messages_write(monkeypatch, folder, caplog):
    with caplog.at_level(logging.DEBUG, "edgespec"):
        edgespec.load(folder, threads=1)
    assert "chat format: the template, by Jinja" in caplog.text
    monkeypatch.setattr(chat_writer, "jinja_is_installed", lambda: False)
    with caplog.at_level(logging.DEBUG, "edgespec"):
        pair = edgespec.load(folder, threads=1)
    assert "chat format: texts around messages" in caplog.text
    assert pair.generate([user("a")], max_new_tokens=1).prompt_tokens > 1
    for messages, options in [
        ([user("a"), user("b")], {}),
        ([user("a")], {"add_generation_prompt": False}),
        ([user("a"), assistant("b", tool_calls=[{"function": {"name": "f"}}]), user("c")], {}),
    ]:
        with pytest.raises(UsageError, match=r"install Jinja"):
            pair.generate(messages, **options)
    # This template reads neither, as the export found.
    harmless = {"chat_template_kwargs": {"colour": "red", "enable_thinking": False}}
    assert pair.encode([user("a")]) == pair.encode([user("a", name="bob")])
    assert pair.generate([user("a")], max_new_tokens=1, **harmless).prompt_tokens


def test_without_jinja_a_template_that_is_no_texts_needs_it():
    writer = ChatWriter(ChatTemplate("{{ messages[0].content | upper }}"), None)
    writer.template = None
    with pytest.raises(UsageError, match="is not known without Jinja; install Jinja"):
        writer([user("a")])


def test_answers_are_where_the_model_wrote_them():
    """From the end of what begins an answer: the template's space is the model's own."""
    template = ChatTemplate(
        "{% for m in messages %}{% if m.role == 'user' %}[{{ m.content }}]{% else %}"
        "{{ ' ' + m.content }};{% endif %}{% endfor %}"
    )
    chat = ChatWriter(template, None)(
        [user("a"), assistant("b"), user("c"), assistant(""), user("d")]
    )
    assert chat.text == "[a] b;[c] ;[d]"
    assert [chat.text[part.start : part.stop] for part in chat.assistant_spans] == [" b", " "]
