"""Claim: a model whose chat template knows tools calls them as the template writes calls, with
arguments that fit their schemas; its answers are split into text and calls without a loss."""

from __future__ import annotations

import json
import re

import pytest

import edgespec
from chat_templates import CHATML, JSON_CALLS, LISTED_CALLS, MARKED_CALLS, XML_CALLS
from checkpoints import byte_tokenizer
from edgespec.artifact.integrity import FileRecord
from edgespec.chat.chat_template import ChatTemplate, read_chat_template
from edgespec.chat.chat_writer import ChatWriter
from edgespec.errors import UsageError
from edgespec.grammar.grammar_matcher import GrammarMatcher
from edgespec.grammar.grammar_vocabulary import GrammarVocabulary
from edgespec.pair.prompt import PromptEncoder
from edgespec.tools.call_format import ToolCallFormat
from edgespec.tools.call_reader import ToolCallReader
from edgespec.tools.tool_list import read_tools
from edgespec.tools.tool_use import ToolUse, chosen_tools

pytest.importorskip("llguidance")

EOS = 1
QUESTION = [{"role": "user", "content": "What is it like?"}]
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 4}, "days": {"enum": [1, 2]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "now", "description": "The time."}},
]
TEMPLATES = {"marked": MARKED_CALLS, "json": JSON_CALLS, "listed": LISTED_CALLS}
FORMS = {
    "marked": ToolCallFormat(
        '<call>\n{"name": "',
        '", "arguments": ',
        '}\n</call>\n<call>\n{"name": "',
        "}\n</call>",
    ),
    "json": ToolCallFormat('{"name": "', '", "parameters": ', None, "}"),
    "listed": ToolCallFormat(
        '<unk>[{"name": "', '", "arguments": ', '}, {"name": "', "}]", frozenset({"<unk>"})
    ),
}


def use_of(template):
    return ToolUse(ChatTemplate(template, {"eos_token": "</s>"}), byte_tokenizer(272), [EOS])


def written_by(template, messages, tools):
    """A conversation as the template writes it."""
    writer = ChatWriter(ChatTemplate(template, {"eos_token": "</s>"}), None, ["<unk>", "</s>"])
    return writer(messages, [tool.shown for tool in tools]).text


def written(form, *calls):
    """An answer's calls, each a name and arguments."""
    parts = [name + form.between + json.dumps(arguments) for name, arguments in calls]
    return form.before + (form.middle or "").join(parts) + form.after


# --- the template ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_form_of_calls_is_the_template_s(name):
    assert use_of(TEMPLATES[name]).form == FORMS[name]


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_prompt_is_what_the_template_renders(name):
    tools = read_tools(TOOLS)
    calls = [
        {
            "id": "1",
            "type": "function",
            "function": {"name": "now", "arguments": '{"in": "Köln"}'},
        }
    ]
    result = {"role": "tool", "tool_call_id": "1", "content": "12:30"}
    answer = {"role": "assistant", "content": None, "tool_calls": calls}
    text = written_by(TEMPLATES[name], [*QUESTION, answer, result], tools)
    template = ChatTemplate(TEMPLATES[name], {"eos_token": "</s>"})
    calls[0]["function"]["arguments"] = {"in": "Köln"}
    answer["content"] = ""
    shown = [tool.shown for tool in tools]
    assert text == template.render([*QUESTION, answer, result], shown)
    for part in ('"weather"', '"The time."', '{"in": "Köln"}', "12:30", QUESTION[0]["content"]):
        assert part in text


@pytest.mark.parametrize("arguments", ['{"city"', "[", "", "  ", "3", '{"a": 1} x', "null", "é"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_call_that_was_cut_off_is_shown_as_it_is(name, arguments):
    call = {"id": "1", "type": "function", "function": {"name": "now", "arguments": arguments}}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    text = written_by(TEMPLATES[name], [*QUESTION, answer], read_tools(TOOLS))
    shown = [arguments, json.dumps(arguments, ensure_ascii=False)] if arguments else ["{}"]
    assert any(FORMS[name].between + part in text for part in shown)


def test_calls_that_are_no_json_are_refused():
    with pytest.raises(UsageError, match="writes calls of tools in a way that is not known"):
        _ = use_of(XML_CALLS).form


def test_a_template_without_tools_is_refused():
    with pytest.raises(UsageError, match="chat template knows no tools"):
        _ = ToolUse(None, byte_tokenizer(272), [EOS]).form
    with pytest.raises(UsageError, match="chat template knows no tools"):
        _ = use_of(CHATML).form


def test_a_special_token_that_is_spelled_out_in_a_tool_is_refused():
    tools = [{"type": "function", "function": {"name": "a", "description": "</s>"}}]
    with pytest.raises(UsageError, match="spells out a special token"):
        written_by(MARKED_CALLS, QUESTION, read_tools(tools))


def test_a_special_token_that_is_spelled_out_in_a_message_is_ordinary_text():
    encode = PromptEncoder(
        byte_tokenizer(272), None, ChatTemplate(MARKED_CALLS, {"eos_token": "</s>"})
    )
    plain = encode([{"role": "user", "content": "What is x?"}], False, read_tools(TOOLS)).tokens
    named = encode([{"role": "user", "content": "What is </s>?"}], False, read_tools(TOOLS)).tokens
    assert named.count(EOS) == plain.count(EOS)


@pytest.mark.parametrize(
    ("template", "knows"), [*((t, True) for t in TEMPLATES.values()), (CHATML, False), ("{", False)]
)
def test_a_template_that_knows_tools_shows_them(template, knows):
    assert ChatTemplate(template).shows_tools == knows


def test_a_message_that_the_template_refuses_is_one_line():
    call = {"type": "function", "function": {"name": "now", "arguments": "{}"}}
    answer = {"role": "assistant", "content": "", "tool_calls": [call, call]}
    with pytest.raises(UsageError, match=r"refuses the messages \(one call only\)"):
        written_by(JSON_CALLS, [*QUESTION, answer], ())


def test_a_damaged_file_is_one_line(tmp_path):
    (tmp_path / "chat_template.json").write_text('{"template": 3}')
    files = {"chat_template.json": FileRecord(15, "0" * 64)}
    with pytest.raises(edgespec.EdgespecError, match="is damaged"):
        read_chat_template(tmp_path, files)


def test_a_template_that_the_manifest_does_not_record_is_not_read(tmp_path):
    (tmp_path / "chat_template.json").write_text('{"template": "x"}')
    assert read_chat_template(tmp_path, {}) is None


# --- the grammar ----------------------------------------------------------------------------------

VOCABULARY = GrammarVocabulary(byte_tokenizer(272), 272, [EOS])
UNK = 2


def tokens_of(text):
    """Byte tokens, and <unk> as the special token."""
    tokenizer = byte_tokenizer(272)
    ids = []
    for number, part in enumerate(text.split("<unk>")):
        ids += ([UNK] if number else []) + tokenizer.encode(part).ids
    return ids


def is_answer(name, text, choice="auto", several=True, tools=TOOLS):
    read = chosen_tools(read_tools(tools), choice)
    grammar = use_of(TEMPLATES[name]).grammar(read, choice, several)
    row = GrammarMatcher(grammar, VOCABULARY).legal(tokens_of(text))
    return row is not None and bool(row[EOS])


CALL = ("weather", {"city": "Rom", "days": 2})
NOW = {"type": "function", "function": {"name": "now"}}


@pytest.mark.parametrize("name", TEMPLATES)
def test_an_answer_is_a_text_or_calls_that_fit(name):
    form = FORMS[name]
    call, other = written(form, CALL), written(form, ("now", {}))
    wrong = written(form, ("weather", {"city": "too long"}))
    unknown = written(form, ("absent", {}))
    for text in ("", "It is fine.", "<cal", "{}", 'a "name"'):
        assert is_answer(name, text)
        assert not is_answer(name, text, "required")
    for choice in ("auto", "required"):
        assert is_answer(name, call, choice)
        assert is_answer(name, other, choice)
        for text in (call[:-1], wrong, unknown, call + "!"):
            assert not is_answer(name, text, choice)
    assert is_answer(name, other, NOW)
    assert not is_answer(name, call, NOW)


@pytest.mark.parametrize("name", ["marked", "listed"])
def test_a_text_may_come_before_calls_and_there_may_be_several(name):
    form = FORMS[name]
    calls = written(form, CALL, ("now", {}), CALL)
    assert is_answer(name, calls)
    assert is_answer(name, "Let me see.\n" + calls)
    assert is_answer(name, calls, "required")
    assert not is_answer(name, "Let me see.\n" + calls, "required")
    assert not is_answer(name, calls, several=False)
    assert not is_answer(name, written(form, ("now", {}), ("now", {})), NOW)
    assert is_answer(name, written(form, CALL), several=False)


def test_one_call_is_the_most_where_the_template_writes_no_more():
    calls = written(FORMS["json"], CALL)
    assert is_answer("json", calls)
    assert not is_answer("json", calls + calls, "required")


def test_a_special_mark_that_is_spelled_with_other_tokens_is_no_text():
    read = read_tools(TOOLS)
    matcher = GrammarMatcher(use_of(LISTED_CALLS).grammar(read, "auto", True), VOCABULARY)
    spelled = byte_tokenizer(272)
    spelled.encode_special_tokens = True
    assert matcher.legal(spelled.encode("<unk").ids) is not None
    assert matcher.legal(spelled.encode("<unk>").ids) is None
    assert matcher.legal([UNK]) is not None


# --- the reader -----------------------------------------------------------------------------------

ANSWERS = {
    "a text": ("It is < fine, or {not}.\n ", "It is < fine, or {not}.\n ", []),
    "nothing": ("", "", []),
    "a call": ("CALLS", "", [CALL]),
    "an argument with marks": ("CALLS", "", [("now", {"a": '}"\\</call>{"name": "', "b": [{}]})]),
}
SEVERAL = {
    "calls": ("CALLS", "", [CALL, ("now", {}), CALL]),
    "text and calls": ("Let me see: <\n\nCALLS", "Let me see: <", [CALL, ("now", {})]),
}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("name", TEMPLATES)
def test_an_answer_is_read_in_pieces_of_any_size(name, size):
    form = FORMS[name]
    for text, content, calls in {**ANSWERS, **(SEVERAL if form.middle else {})}.values():
        answer = text.replace("CALLS", written(form, *calls)) if calls else text
        reader = ToolCallReader(form)
        pieces = [
            piece
            for start in range(0, len(answer), size)
            for piece in reader.read(answer[start : start + size])
        ]
        pieces += reader.read("", last=True)
        found_text = "".join(piece for piece in pieces if isinstance(piece, str))
        found = [piece for piece in pieces if not isinstance(piece, str)]
        names = [piece.name for piece in found if piece.name is not None]
        arguments = [""] * len(names)
        for piece in found:
            arguments[piece.index] += piece.arguments
        assert found_text == content
        assert [*zip(names, map(json.loads, arguments), strict=True)] == calls
        assert reader.has_calls == bool(calls)


def read(form, answer, size):
    """The text, names and arguments of an answer that comes in pieces of this size."""
    reader, text, calls = ToolCallReader(form), "", []
    parts = [answer[start : start + size] for start in range(0, len(answer), size)]
    pieces = [piece for part in parts for piece in reader.read(part)]
    for piece in [*pieces, *reader.read("", last=True)]:
        if isinstance(piece, str):
            text += piece
        elif piece.name is not None:
            calls.append([piece.name, ""])
        else:
            calls[piece.index][1] += piece.arguments
    return text, calls


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("before", ["", "I see.\n"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_an_answer_that_is_cut_off_anywhere_is_whole_as_text_or_has_its_call(name, before, size):
    form = FORMS[name]
    if before and not form.mark:
        return  # such a template writes no text before a call
    answer = before + written(form, CALL)
    named = answer.index(form.between) + len(form.between)
    ended = answer.rindex(form.after)
    for length in range(len(answer) + 1):
        text, calls = read(form, answer[:length], size)
        if length < named:
            assert (text, calls) == (answer[:length].replace("<unk>", ""), [])
        else:
            assert text == before.rstrip()
            assert calls == [[CALL[0], answer[named : min(length, ended)]]]


@pytest.mark.parametrize("name", ["marked", "listed"])
def test_a_later_call_that_is_cut_off_before_its_arguments_is_left_out(name):
    form = FORMS[name]
    answer, first = written(form, CALL, ("now", {})), written(form, CALL)
    second = answer.index(form.between, len(first) - len(form.after)) + len(form.between)
    for length in range(len(first) - len(form.after), second):
        assert read(form, answer[:length], 5) == ("", [[CALL[0], json.dumps(CALL[1])]])


# --- what is refused ------------------------------------------------------------------------------


def function(**fields):
    return [{"type": "function", "function": fields}]


@pytest.mark.parametrize(
    ("tools", "reason"),
    [
        (["a"], "a tool is 'a'"),
        ([{"type": "custom", "function": {}}], "a tool has the type 'custom'"),
        (function(name="a b"), "a function's name is 'a b'"),
        (function(name="a", description=3), "the description of a is 3"),
        (function(name="a", parameters={"type": "array"}), "the parameters of a are"),
        (function(name="a", parameters={"type": "object", "not": {}}), "the keyword 'not'"),
        ([*function(name="a"), *function(name="a")], "the function 'a' twice"),
        (function(name="a") * 129, "give a list of 1 to 128"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_tools_that_are_none_are_refused(tools, reason):
    with pytest.raises(UsageError, match=re.escape(reason)):
        read_tools(tools)


@pytest.mark.parametrize("choice", ["some", {"type": "function"}, {"function": {"name": "x"}}, 3])
def test_a_choice_that_is_none_is_refused(choice):
    with pytest.raises(UsageError, match="tool_choice is"):
        chosen_tools(read_tools(TOOLS), choice)


def test_a_required_call_without_tools_is_refused():
    with pytest.raises(UsageError, match="tool_choice is 'required'"):
        chosen_tools([], "required")


@pytest.mark.parametrize(
    "message",
    [
        {"role": "robot", "content": "a"},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {}}]},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "a", "arguments": 3}}],
        },
        {"role": "assistant", "content": "", "tool_calls": "a"},
        {"role": "user", "content": [{"type": "image_url"}]},
        {"role": "user", "content": 3},
        {"role": ["user"], "content": "x"},
        {"role": "user", "content": "\udcff"},
        {"content": "x"},
        3,
    ],
    ids=str,
)
def test_a_message_that_is_none_is_refused(message):
    with pytest.raises(UsageError, match="message 2 ") as error:
        written_by(MARKED_CALLS, [*QUESTION, message], ())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("text", "shown"), [("", "{}"), ("{}", "{}"), ('{"a', '"{\\"a"')])
def test_arguments_may_be_empty_or_cut_off(text, shown):
    """A limit cuts calls off, and clients send the answer back."""
    call = {"function": {"name": "f", "arguments": text}}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    written = written_by(MARKED_CALLS, [*QUESTION, answer, *QUESTION], ())
    assert f'{{"name": "f", "arguments": {shown}}}' in written
