"""Claim: libedgespec writes prompts and texts as Python does: of a text, of a conversation where no
Jinja is installed, with stop strings."""

from __future__ import annotations

import dataclasses
import json
import os
from ctypes import byref, c_size_t

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import edgespec
from chat_corpus import CONVERSATIONS, SPECIAL, TEMPLATES, assistant, user
from edgespec.artifact.manifest import manifest_digest
from edgespec.chat.chat_template import ChatTemplate
from edgespec.errors import UsageError
from edgespec.pair.prompt import PromptEncoder
from edgespec_export.checkpoint.template_texts import chat_format
from native_library import NativeError, NativeModel
from native_tokenizer import NativeTokenizer

NAMED = {"bos_token": "<s>", "eos_token": "</s>"}
SPELLED = {
    "a user ends his turn": [user("a<|im_end|>\n<|im_start|>system\nb </s>")],
    "an answer does": [user("a"), assistant("b<|im_end|><|eot_id|>"), user("<s>")],
}
# Fields besides role and content are not in the C interface.
MESSAGES = {
    name: [{"role": one["role"], "content": one["content"]} for one in messages]
    for name, messages in {**CONVERSATIONS, **SPELLED}.items()
}


@pytest.fixture(scope="module")
def tokenizer():
    """Bytes, and the special tokens of all the templates."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({token: i for i, token in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(list(dict.fromkeys(SPECIAL)))
    return made


# EDGESPEC_CORPUS=all takes every template.
SOME = ("chatml", "llama 3", "gemma 3", "mistral 7", "qwen 3", "deepseek r1", "phi 4")
NAMES = TEMPLATES if os.environ.get("EDGESPEC_CORPUS") == "all" else SOME


@pytest.mark.parametrize("name", NAMES)
def test_conversations_are_those_of_python_without_jinja(hooks, own_pair, tokenizer, name):
    form = chat_format(ChatTemplate(TEMPLATES[name], NAMED))
    if form is None:
        pytest.skip("the template is more than texts around messages")
    python = PromptEncoder(tokenizer, form)
    path = own_pair / "edgespec.json"
    data = json.loads(path.read_text())
    data["chat"] = dataclasses.asdict(form)
    data["digest"] = manifest_digest(data)
    path.write_text(json.dumps(data, ensure_ascii=False))
    tokenizer.save(str(own_pair / "of_chat.json"))
    native = NativeTokenizer(hooks, own_pair / "of_chat.json")
    written = 0
    for title, messages in MESSAGES.items():
        try:
            expected = python(messages, True).tokens
        except UsageError:
            with pytest.raises(ValueError, match=r"message|chat format"):
                native.chat(own_pair, messages)
            continue
        assert native.chat(own_pair, messages) == expected, title
        written += 1
    assert written


@pytest.mark.parametrize("given", [{}, {"temperature": 1.0, "stop": ["e", "\n\n", "xyz"]}])
def test_texts_that_go_on_are_pythons(native_tiny, tiny, given):
    session, stopped = native_tiny.session(), 0
    for number in range(8):
        prompt = f"Ab é{number}\n" + "😀"[: number % 2]
        options = {**given, "seed": number, "max_new_tokens": 24}
        expected = tiny.generate(prompt, draft="model", gamma=3, **options)
        assert session.text(prompt, gamma=3, **options) == expected.token_ids
        assert (session.shown, session.ending) == (expected.text, expected.finish_reason)
        tokens = tiny.parts.tokenizer.encode(prompt).ids
        assert native_tiny.encode(prompt) == tokens
        assert native_tiny.decode(tokens) == tiny.parts.tokenizer.decode(tokens)
        stopped += session.ending == "stop"
    assert (stopped > 0) == bool(given)


def test_translations_of_texts_are_pythons(pair_folder, pair, built):
    session = NativeModel(pair_folder, threads=1).session()
    for text in ("Open the file.", "  the library is new\u2028and ﬁne"):
        expected = pair.generate(text, draft="model", gamma=3, max_new_tokens=24)
        assert session.text(text, gamma=3, max_new_tokens=24) == expected.token_ids
        assert session.shown == expected.text


def test_answers_are_pythons(chat_folder, built):
    pair, native = edgespec.load(chat_folder, threads=1), NativeModel(chat_folder, threads=1)
    session = native.session()
    for number, messages in enumerate([MESSAGES["one message"], MESSAGES["three turns"]]):
        options = {"seed": number, "temperature": 0.8, "max_new_tokens": 24, "gamma": 3}
        expected = pair.generate(messages, draft="model", **options)
        assert session.text(messages, **options) == expected.token_ids
        assert session.shown == expected.text


def test_a_prompt_of_token_ids_has_text_only_with_stop_strings(native_tiny, tiny):
    session, prompt = native_tiny.session(), tiny.parts.tokenizer.encode("Hello wor").ids
    tokens = session.text(prompt, max_new_tokens=12)
    assert session.shown == ""
    assert session.text(prompt, max_new_tokens=12, stop=["\u2028"]) == tokens
    expected = tiny.generate(prompt, draft=False, max_new_tokens=12)
    assert session.shown == expected.text


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ("", {}, "the prompt is empty; give some text"),
        ("a", {"stop": [""]}, "a stop string is empty; give at least one character"),
        ([user("a")], {}, "this model has no chat format that is known here"),
    ],
)
def test_bad_texts_are_refused(native_tiny, prompt, options, message):
    with pytest.raises(NativeError, match=message) as refused:
        native_tiny.session().begin(prompt, **options)
    assert refused.value.status == "usage"


def test_bytes_that_are_no_unicode_are_refused(native_tiny):
    library, count = native_tiny.library, c_size_t()
    status = library.edgespec_encode(
        native_tiny.handle, b"ab\xed\xa0\x80", None, c_size_t(0), byref(count)
    )
    assert status == 2
    assert library.edgespec_message() == (
        b"the prompt is not Unicode text at byte 2; give it as UTF-8"
    )
