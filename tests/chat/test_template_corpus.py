"""Claim: a conversation is what transformers makes of it with the same chat template, token by
token, and is refused where the template refuses it; and without Jinja it is the same or refused."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

import pytest
from jinja2 import TemplateError
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from chat_corpus import CONVERSATIONS, NO_CONTENT, PARTS, SPECIAL, TEMPLATES, assistant, user
from depth import one_in
from edgespec.chat.chat_template import ChatTemplate
from edgespec.chat.chat_writer import ChatOptions, ChatWriter
from edgespec.errors import UsageError
from edgespec.pair.prompt import PromptEncoder
from edgespec_export.checkpoint.template_texts import chat_format

transformers = pytest.importorskip("transformers")
NAMED = {"bos_token": "<s>", "eos_token": "</s>"}


@cache
def tokenizer() -> Tokenizer:
    """Bytes, and the special tokens of all the templates."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({token: i for i, token in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(list(dict.fromkeys(SPECIAL)))
    return made


@cache
def theirs():
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer(), **NAMED)


@cache
def template(name: str) -> ChatTemplate:
    return ChatTemplate(TEMPLATES[name], NAMED)


@cache
def encoder(name: str) -> PromptEncoder:
    return PromptEncoder(tokenizer(), None, template(name))


def expected(name: str, messages, **options) -> list[int] | None:
    """Of transformers; None if the template refuses the messages."""
    given = {"add_generation_prompt": True, **options}
    try:
        tokens = theirs().apply_chat_template(
            messages, chat_template=TEMPLATES[name], return_dict=False, **given
        )
    except (TemplateError, TypeError, ValueError):  # what a template raises, or not to be continued
        return None
    return tokens or None  # nothing is no prompt


def found(name: str, messages, options: ChatOptions | None = None) -> list[int] | None:
    with suppress(UsageError):
        return encoder(name)(messages, False, (), options).tokens
    return None


@one_in(2, turn=1)
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_conversation_has_the_tokens_that_transformers_gives_it(name):
    wrong = {
        shape: (found(name, messages), expected(name, messages))
        for shape, messages in CONVERSATIONS.items()
        if found(name, messages) != expected(name, messages)
    }
    if not template(name).names("developer"):
        wrong.pop("a developer", None)  # OpenAI's word for a system prompt, where it has no other
    assert not wrong


def test_most_shapes_are_taken_by_most_templates():
    """The comparison above compares more than refusals."""
    taken = sum(found(n, m) is not None for n in TEMPLATES for m in CONVERSATIONS.values())
    assert taken > 0.75 * len(TEMPLATES) * len(CONVERSATIONS)


@pytest.mark.parametrize("name", TEMPLATES)
def test_without_a_prompt_for_the_answer(name):
    messages = CONVERSATIONS["an assistant last"]
    without = found(name, messages, ChatOptions(begins_answer=False))
    assert without == expected(name, messages, add_generation_prompt=False)


@pytest.mark.parametrize("text", ["{", " {\n", "", "Dear\n"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_last_message_is_continued(name, text):
    messages = [user("Write JSON."), assistant(text)]
    continued = found(name, messages, ChatOptions(continues=True))
    options = {"add_generation_prompt": False, "continue_final_message": True}
    assert continued == expected(name, messages, **options)


OPTIONS = [
    ("qwen 3", {"enable_thinking": False}),
    ("qwen 3", {"enable_thinking": True}),
    ("smollm 3", {"enable_thinking": False}),
    ("harmony", {"reasoning_effort": "high"}),
    ("granite", {"controls": {"length": "short"}}),
    ("llama 3.1", {"date_string": "1 Jan 2030"}),
    ("chatml", {"enable_thinking": False, "unknown": [1, None]}),
]


@pytest.mark.parametrize(("name", "values"), OPTIONS, ids=str)
def test_values_of_the_template_are_given_to_it(name, values):
    messages = CONVERSATIONS["turns after a system prompt"]
    assert found(name, messages, ChatOptions(values)) == expected(name, messages, **values)
    changes = name != "chatml" and values != {"enable_thinking": True}
    assert (found(name, messages, ChatOptions(values)) != found(name, messages)) == changes


@pytest.mark.parametrize("name", TEMPLATES)
def test_parts_of_a_content_are_given_to_templates_that_take_them_and_joined_for_others(name):
    whole = [user("one two")]
    given = PARTS if template(name).takes_parts else whole
    assert found(name, PARTS) == expected(name, given)


def test_some_templates_take_parts():
    assert [name for name in TEMPLATES if template(name).takes_parts] == ["gemma 3", "named"]


@pytest.mark.parametrize("kind", NO_CONTENT)
@pytest.mark.parametrize("name", TEMPLATES)
def test_no_content_is_none_where_the_template_knows_that_and_else_empty(name, kind):
    """Some templates would write "None", others fail; a template that tells None from an empty
    text, as DeepSeek's, is given None for a call."""
    if name == "deepseek r1" and kind == "null with a call":
        return
    messages = NO_CONTENT[kind]
    empty = [{**m, "content": m["content"] if m.get("content") else ""} for m in messages]
    tokens = found(name, messages)
    assert tokens in (expected(name, messages), expected(name, empty))
    if tokens is not None:
        assert "None" not in tokenizer().decode(tokens, skip_special_tokens=False)


def test_a_call_without_content_is_not_lost():
    text = tokenizer().decode(found("deepseek r1", NO_CONTENT["null with a call"]) or [])
    assert 'call:f\n{"x": 1}' in text


# --- texts around messages, for devices without Jinja ---------------------------------------------


@cache
def without_jinja(name: str) -> ChatWriter:
    writer = ChatWriter(template(name), chat_format(template(name)))
    writer.template = None
    return writer


def by_pieces(name: str, messages, options: ChatOptions | None = None) -> tuple[str | None, str]:
    """The text, or None and why there is none."""
    try:
        return without_jinja(name)(messages, (), options).text, ""
    except UsageError as error:
        return None, str(error)


@one_in(2)
@pytest.mark.parametrize("name", TEMPLATES)
def test_without_jinja_a_conversation_is_the_same_or_refused(name):
    for shape, messages in CONVERSATIONS.items():
        text, refusal = by_pieces(name, messages)
        if text is None:
            assert "install Jinja" in refusal, shape
        else:
            assert text == encoder(name).chat(messages).text, shape


@pytest.mark.parametrize("name", TEMPLATES)
def test_without_jinja_ordinary_turns_are_known(name):
    for shape in ("one message", "three turns"):
        assert without_jinja(name)(CONVERSATIONS[shape]).text


SYSTEM_ELSEWHERE = {"gemma", "mistral 1", "mistral 3", "smollm 3"}


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - SYSTEM_ELSEWHERE))
def test_without_jinja_a_system_prompt_is_known_unless_it_has_no_one_place(name):
    """Mistral 3's is in the last message; SmolLM 3's words choose its mode."""
    assert without_jinja(name)(CONVERSATIONS["turns after a system prompt"]).text


@pytest.mark.parametrize("name", TEMPLATES)
def test_without_jinja_a_continued_message_is_the_same_or_refused(name):
    messages = [user("a"), assistant("b"), user("c"), assistant("d e")]
    options = ChatOptions(continues=True)
    text, refusal = by_pieces(name, messages, options)
    if text is None:
        assert "install Jinja" in refusal
    else:
        assert text == encoder(name).chat(messages, (), options).text


VALUES = {
    "enable_thinking": [False, True, None, "no"],
    "thinking": [False, True],
    "reasoning_effort": ["none", "low", "high", 3],
    "date_string": ["1 Jan 2030"],
    "namespace": [1],
    "unknown": [[1, None]],
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_without_jinja_a_value_of_the_template_is_the_same_or_refused(name):
    for option, values in VALUES.items():
        for value in values:
            options = ChatOptions({option: value, "other": 1})
            for shape in ("one message", "turns after a system prompt"):
                text, refusal = by_pieces(name, CONVERSATIONS[shape], options)
                if text is None:
                    assert "install Jinja" in refusal, (option, value)
                else:
                    assert text == encoder(name).chat(CONVERSATIONS[shape], (), options).text


@pytest.mark.parametrize("name", ["qwen 3", "smollm 3", "harmony"])
def test_without_jinja_thinking_is_known_where_the_template_has_it(name):
    option, value = (
        ("reasoning_effort", "high") if name == "harmony" else ("enable_thinking", False)
    )
    messages = CONVERSATIONS["one message"]
    text, refusal = by_pieces(name, messages, ChatOptions({option: value}))
    assert not refusal
    assert text != by_pieces(name, messages)[0]


def test_without_jinja_two_values_are_known_where_one_of_them_changes_nothing():
    both = (
        "{% for m in messages %}<{{ m.content }}>{% endfor %}"
        "{% if thinking %}T{% endif %}{% if enable_thinking %}E{% endif %}"
    )
    writer = ChatWriter(ChatTemplate(both), chat_format(ChatTemplate(both)))
    writer.template = None
    for values, text in (
        ({"thinking": True, "enable_thinking": False}, "<a>T"),
        ({"thinking": False, "enable_thinking": True}, "<a>E"),
        ({"thinking": False, "enable_thinking": False}, "<a>"),
    ):
        assert writer([user("a")], (), ChatOptions(values)).text == text
    with pytest.raises(UsageError, match="one by one without Jinja"):
        writer([user("a")], (), ChatOptions({"thinking": True, "enable_thinking": True}))
