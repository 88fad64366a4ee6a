"""Claim: the texts that an export finds around messages make what the model's template makes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE

from chat_templates import (
    BEGINS_THINKING,
    CHATML,
    DEFAULT_SYSTEM,
    FOLDED_SYSTEM,
    THINKS,
    TRIMS,
    TRIMS_TOGETHER,
    TURNS,
)
from depth import one_in
from edgespec.artifact.chat_format import ChatFormat, user_message
from edgespec.chat.chat_template import ChatTemplate
from edgespec.errors import UsageError
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import Source
from edgespec_export.checkpoint.template_texts import chat_format, folder_template
from tiny_checkpoints import IM_END, write_gguf

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def write(folder, name, value):
    (folder / name).write_text(json.dumps(value), encoding="utf-8")


@cache  # each example of a property asks again
def form_of(template: str) -> ChatFormat:
    form = chat_format(ChatTemplate(template, TOKENS))
    assert form is not None
    return form


def rendered(template: str, messages) -> str:
    """By transformers itself."""
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    texts, _ = utils.render_jinja_template(
        [messages], chat_template=template, add_generation_prompt=True, **TOKENS
    )
    return texts[0]


# --- conversations -------------------------------------------------------------------------------

contents = st.text(st.sampled_from("aß😀 \n\t<>[]|"), min_size=1, max_size=8) | st.sampled_from(
    ["<think>\nwhy\n</think>\n\nso", "</think>", "<|im_end|>"]
)


@st.composite
def conversations(draw, system: bool):
    messages = [user_message(draw(contents))]
    for _ in range(draw(st.integers(0, 2))):
        answer = draw(contents | st.just(""))
        messages += [{"role": "assistant", "content": answer}, user_message(draw(contents))]
    if system and draw(st.booleans()):
        messages.insert(0, {"role": "system", "content": draw(contents | st.just(""))})
    return messages


@one_in(2)
@pytest.mark.parametrize(
    ("template", "system"),
    [
        (CHATML, True),
        (DEFAULT_SYSTEM, True),
        (TRIMS, True),
        (TURNS, False),
        (FOLDED_SYSTEM, True),
        (THINKS, True),
        (BEGINS_THINKING, True),
    ],
    ids=[
        "chatml",
        "default system",
        "trims",
        "turns",
        "folded system",
        "thinks",
        "begins thinking",
    ],
)
@given(data=st.data())
def test_a_conversation_is_what_transformers_renders(template, system, data):
    messages = data.draw(conversations(system))
    text, answers, contents = form_of(template).text(messages)
    assert text == rendered(template, messages)
    assert len(contents) == len(messages)
    given = [message["content"] for message in messages if message["role"] == "assistant"]
    shown = [answer.rpartition("</think>")[2].strip() for answer in given]
    found = [text[part.start : part.stop] for part in answers]
    assert [answer.rpartition("</think>")[2].strip() for answer in found] == shown


@pytest.mark.parametrize(
    "template",
    [
        TURNS,
        "{% for m in messages %}{{ m.content if m.role == 'user' else m.content | upper }}"
        "{% endfor %}",
    ],
    ids=["refuses it", "changes it"],
)
def test_a_system_prompt_that_is_no_text_in_front_is_refused(template):
    with pytest.raises(UsageError, match="takes no system prompt"):
        form_of(template).text([{"role": "system", "content": "x"}, user_message("y")])


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages[0].content }}",
        "{{ messages[-1].content }}",
        "{% for m in messages %}{{ loop.index }}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{{ m.content | lower if loop.index == 4 else m.content }}|"
        "{% endfor %}",
    ],
)
def test_a_template_that_is_more_than_texts_between_messages_takes_one_message(template):
    form = form_of(template)
    assert form.between is None
    with pytest.raises(UsageError, match="one message only"):
        form.text(turns("a", "b", "c"))


def turns(*texts):
    """A user and an assistant in turn."""
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]


SYSTEM = {"role": "system", "content": "s"}
LEAVES_EMPTY_OUT = (
    "{% for m in messages %}{% if m.role == 'user' or m.content %}"
    "[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}"
)
STRIPS_LINES = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content.lstrip('\\n') if m.role == 'assistant' "
    "else m.content }}{% endfor %}"
)
LAST_THOUGHT = (
    "{% for m in messages %}{{ m.content.split('</think>')[1] if '</think>' in m.content "
    "else m.content }}|{% endfor %}"
)


@pytest.mark.parametrize(
    ("template", "odd", "taken"),
    [
        (LEAVES_EMPTY_OUT, turns("a", "", "c"), turns("a", " b\n", "c")),
        (LEAVES_EMPTY_OUT, [SYSTEM | {"content": ""}, *turns("a")], [SYSTEM, *turns("a")]),
        (STRIPS_LINES, turns("a", "\nb", "c"), turns("\na", "b\nb", "c\n")),
        (LAST_THOUGHT, turns("a", "t</think>b", "c"), turns(" a", "", "c ")),
        (TRIMS_TOGETHER, [SYSTEM, *turns(" a")], [SYSTEM, *turns("a", " b ")[:1]]),
        (TRIMS_TOGETHER, [SYSTEM | {"content": " s"}, *turns("a")], turns(" a ")),
    ],
    ids=[
        *("an empty answer", "an empty system prompt", "spaces around an answer", "thinking"),
        *("spaces after a system prompt", "spaces around a system prompt"),
    ],
)
def test_only_the_odd_text_is_refused(template, odd, taken):
    """Phi-3.5 and LFM2 leave an empty system prompt out; SmolLM3 and QwQ strip line breaks."""
    form = form_of(template)
    with pytest.raises(UsageError, match=r"is not known without Jinja; .*install Jinja"):
        form.text(odd)
    assert form.text(taken).text == rendered(template, taken)


def test_dates_are_those_of_the_request():
    form = form_of(
        "{{ strftime_now('%d %B %Y') }}|{% for m in messages %}{{ m.content }}"
        "{{ strftime_now('%H') }}{% endfor %}"
    )
    days = (datetime(2024, 2, 29, 7), datetime(2031, 12, 1, 23))
    texts = [form.text(turns("a"), date=day.strftime).text for day in days]
    assert texts == ["29 February 2024|a07", "01 December 2031|a23"]


def test_a_template_that_changes_a_date_is_none():
    template = ChatTemplate("{{ strftime_now('%d %B') | upper }} {{ messages[0].content }}")
    assert chat_format(template) is None


def test_fields_that_the_template_does_not_read_are_passed_over():
    message = user_message("x") | {"name": "bob", "metadata": {"a": 1}}
    assert form_of(CHATML).text([message]).text == form_of(CHATML).text([user_message("x")]).text
    named = form_of("{% for m in messages %}{{ m.name }}{{ m.content }}|{% endfor %}")
    with pytest.raises(UsageError, match="message 1 has a name that is not known without Jinja"):
        named.text([message])


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([{"role": "user"}], "message 1 has a content that is not known"),
        (
            [user_message("x")] * 300,
            "roles are user, user, user, user, user, user, …; without Jinja",
        ),
        ([{"role": "user", "content": 5}], "message 1 has a content"),
        ([{"role": "system", "content": "x"}], "roles are system; without"),
        ([user_message("x"), user_message("y")], "roles are user, user; without"),
        ([user_message("x"), {"role": "assistant", "content": "y"}], "user's last"),
        (
            [user_message("x"), {"role": "system", "content": "y"}, user_message("z")],
            "roles are user, system",
        ),
        ([{"role": "assistant", "content": "y"}], "roles are assistant"),
    ],
    ids=str,
)
def test_messages_that_are_no_conversation_are_refused(messages, message):
    with pytest.raises(UsageError) as caught:
        form_of(CHATML).text(messages)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# --- one message ---------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    Tokenizer(BPE({"a": 0, "b": 1}, [])).save(str(tmp_path / "tokenizer.json"))
    write(tmp_path, "config.json", {"model_type": "llama", "eos_token_id": 1})
    return tmp_path


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (CHATML, ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n")),
        ("{{ bos_token }}{{ messages[0]['content'] | trim }}{{ eos_token }}", ("<s>", "</s>")),
        ("{% generation %}[{{ messages[0].content }}]{% endgeneration %}", ("[", "]")),
        ("{% for m in messages %}{{ m.content }}{% break %}{% endfor %}", ("", "")),
    ],
)
def test_a_template_splits_around_the_message(template, expected):
    form = form_of(template)
    assert (form.before, form.after) == expected


@pytest.mark.parametrize(
    "template",
    [
        "no message",
        "{{ messages[0].content }} {{ messages[0].content }}",
        "{{ messages[0].content | upper }}",
        "{{ raise_exception('only with a system message') }}",
        "{% if %}",
        "{{ messages[9].content.x }}",
        "{{ 1 / 0 }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ messages.append(1) }}{{ messages[0].content }}",
        "{{ messages[0] | tojson }}",
        "{{ ''.__class__.__mro__ }}{{ messages[0].content }}",
    ],
)
def test_a_template_that_does_not_split_gives_none(template):
    assert chat_format(ChatTemplate(template)) is None


def special_tokens(folder, *, settings, special=None):
    write(folder, "tokenizer_config.json", settings)
    if special is not None:
        write(folder, "special_tokens_map.json", special)


TOKEN = {"content": "<b>", "lstrip": False, "normalized": False, "rstrip": False}


@pytest.mark.parametrize(
    ("settings", "special"),
    [
        ({"bos_token": "<b>", "pad_token": "<p>"}, None),
        ({}, {"bos_token": TOKEN, "pad_token": "<p>"}),
        ({"bos_token": "<w>", "pad_token": None}, {"bos_token": TOKEN, "pad_token": "<p>"}),
        (
            {"added_tokens_decoder": {}, "bos_token": "<b>"},
            {"bos_token": "<w>", "pad_token": "<q>"},
        ),
        ({"unk_token": "<u>", "extra_special_tokens": {"image_token": "<i>"}}, None),
        ({"add_bos_token": True, "boi_token": "<i>"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize(
    "template",
    [
        "{{ bos_token }}{{ pad_token }}{{ unk_token }}{{ image_token }}{{ boi_token }}|{{ m }}",
        "{% if bos_token is defined %}bos{% endif %}{{ m }}",
        "{% if tools is not none %}tools{% endif %}{{ m }}",
        "{% if documents is none %}no documents{% endif %}{{ m }}",
        "{% if not add_bos_token %}none{% endif %}{{ m }}",
        "{{ {'b': 'é', 'a': 1} | tojson(sort_keys=true, separators=(',', ':')) }}{{ m }}",
    ],
)
def test_a_template_finds_the_names_that_transformers_gives_it(folder, settings, special, template):
    transformers = pytest.importorskip("transformers")
    special_tokens(folder, settings=settings, special=special)
    template = "{% set m = messages[0].content %}" + template
    (folder / "chat_template.jinja").write_text(template)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    expected = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hello"}], tokenize=False, add_generation_prompt=True
    )
    found = folder_template(folder)
    assert found is not None
    assert found.render([user_message("hello")]) == expected
    form = chat_format(found)
    assert form is not None
    assert form.text([user_message("hello")])[0] == expected


def test_a_template_of_a_gguf_file_finds_its_special_tokens(tmp_path):
    template = "{{ bos_token }}{{ pad_token }}{{ unk_token is defined }}{{ messages[0].content }}"
    changes = {"tokenizer.chat_template": template, "tokenizer.ggml.padding_token_id": IM_END}
    path = write_gguf(tmp_path / "x.gguf", changes=changes)
    form = open_checkpoint(Source(path, "label")).chat
    assert replace(form, options=()) == ChatFormat(before="<|endoftext|><|im_end|>False", after="")


def test_the_template_file_comes_before_the_settings(tmp_path):
    assert folder_template(tmp_path) is None
    settings = {"chat_template": "{{ eos_token }}{{ messages[0].content }}"}
    write(tmp_path, "tokenizer_config.json", settings | {"eos_token": {"content": "</s>"}})
    assert folder_template(tmp_path) == ChatTemplate(
        settings["chat_template"], {"eos_token": "</s>"}
    )
    named = [{"name": "rag", "template": "x"}, {"name": "default", "template": CHATML}]
    write(tmp_path, "tokenizer_config.json", {"chat_template": named})
    assert folder_template(tmp_path) == ChatTemplate(CHATML)
    (tmp_path / "chat_template.jinja").write_text("Q: {{ messages[0].content }}")
    assert folder_template(tmp_path) == ChatTemplate("Q: {{ messages[0].content }}")
