"""Claim: a chat that was saved goes on, when it is opened again, as if it had never been closed;
what cannot be saved or opened is one line, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import edgespec
from command import run
from edgespec.cli.commands.chat_command import chat
from edgespec.cli.terminal.answer_view import Shown
from edgespec.cli.terminal.chat_setting import ChatSettings
from edgespec.cli.terminal.conversation import Conversation
from edgespec.cli.terminal.saved_chat import (
    CACHE,
    chat_file,
    chat_names,
    open_chat,
    save_chat,
    use_kept_cache,
)
from edgespec.errors import EdgespecError, UsageError
from full_disk import full_after

OPTIONS = {
    **{"temperature": 1.2, "top_k": 20, "max_new_tokens": 8, "min_tokens": 8, "seed": 5},
    **{"greedy": False, "logit_bias": {40: 1.5}, "stop": ("zzzz",), "draft": True},
}


@pytest.fixture(scope="module")
def pair(chat_folder) -> edgespec.Pair:
    return edgespec.load(chat_folder, threads=1)


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))


def say(conversation: Conversation, text: str) -> str:
    stream = conversation.ask(text)
    for _ in stream:
        pass
    conversation.add(text, stream.result.text)
    return stream.result.text


def begun(pair: edgespec.Pair, **options: object) -> Conversation:
    conversation = Conversation(pair, "Be brief.", {**OPTIONS, **options})
    say(conversation, 'one "quoted" line\nand \u2028 another 你好')
    conversation.made_again += 1
    say(conversation, "two")
    return conversation


# --- exactly -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"greedy": True, "temperature": None, "top_k": None}])
def test_what_follows_is_what_would_have_followed(pair, tmp_path, options):
    undisturbed = begun(pair, **options)
    following = [say(undisturbed, "three"), say(undisturbed, "four")]
    kept = begun(pair, **options)
    save_chat(kept, tmp_path / "chat.json")
    opened = Conversation(pair, None, {"temperature": 0.1, "greedy": False, "top_p": 0.5})
    assert open_chat(opened, tmp_path / "chat.json") is None
    assert opened.messages == kept.messages
    assert [say(opened, "three"), say(opened, "four")] == following


def test_so_it_is_without_a_seed(pair, tmp_path):
    kept = begun(pair, seed=None)
    save_chat(kept, tmp_path / "chat.json")
    opened = Conversation(pair, None, {"greedy": False})
    open_chat(opened, tmp_path / "chat.json")
    assert say(opened, "three") == say(kept, "three")


def test_a_chat_with_its_cache_goes_on_and_reads_nothing_again(pair, chat_folder, tmp_path):
    undisturbed = begun(pair)
    following = [say(undisturbed, "three"), say(undisturbed, "four")]
    save_chat(begun(pair), tmp_path / "chat.json", keeps_cache=True)
    for damage in (bytes, None):  # an emptied cache is passed over
        other = edgespec.load(chat_folder, threads=1)
        opened = Conversation(other, None, {"greedy": False})
        open_chat(opened, tmp_path / "chat.json")
        assert use_kept_cache(other, tmp_path / "chat.json") == "need not read them again"
        assert [say(opened, "three"), say(opened, "four")] == following
        if damage is not None:
            (tmp_path / f"chat.json{CACHE}").write_bytes(damage())
            says = use_kept_cache(other, tmp_path / "chat.json")
            assert "a damaged one" in says
            assert "\n" not in says
            save_chat(begun(pair), tmp_path / "chat.json", keeps_cache=True)
    save_chat(begun(pair), tmp_path / "chat.json")
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["chat.json"]


def test_a_chat_that_is_saved_without_its_cache_leaves_nothing_that_a_killed_one_had_begun(
    pair, tmp_path
):
    begun_cache = tmp_path / f".chat.json{CACHE}.partial"
    begun_cache.write_bytes(b"what was said")
    save_chat(begun(pair), tmp_path / "chat.json")
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["chat.json"]


def test_answers_of_a_pipe_go_on_from_a_saved_chat(pair, chat_folder):
    kept = begun(pair)
    save_chat(kept, chat_file("kept"))
    answers = run("chat", chat_folder, "--threads", 1, "--load", "kept", input='"""a\nb"""\nc\n')
    assert answers.stdout == f"{say(kept, 'a' + chr(10) + 'b')}\n{say(kept, 'c')}\n"


def test_taking_back_leads_to_the_same_answer_again(pair):
    conversation = begun(pair)
    first = say(conversation, "three")
    assert conversation.undo() == "three"
    assert say(conversation, "three") == first


# --- files ---------------------------------------------------------------------------------------


def test_a_name_is_a_file_of_the_user_s_own_and_a_path_is_a_path(pair, tmp_path):
    assert chat_file("holiday plans") == tmp_path / "home/chats/holiday plans.json"
    assert chat_file("chat.json") == Path("chat.json")
    assert chat_file("../x/chat") == Path("../x/chat")
    for name in ("", "a\0b", ".hidden", "x" * 5000):
        with pytest.raises(UsageError, match="no name for a chat"):
            chat_file(name)
    assert chat_names() == []
    save_chat(begun(pair), chat_file("holiday"))
    assert chat_names() == ["holiday"]


def test_a_full_disk_leaves_the_chat_that_was_saved_before(pair, tmp_path):
    conversation = begun(pair)
    file = tmp_path / "chat.json"
    save_chat(conversation, file)
    before = file.read_bytes()
    say(conversation, "three")
    with full_after(len(before)), pytest.raises(OSError, match="File too large") as error:
        save_chat(conversation, file)
    assert error.value.filename == str(file)  # what a line says of it
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["chat.json"]
    assert len(conversation.messages) == 6
    save_chat(conversation, file)
    assert len(json.loads(file.read_text())["messages"]) == 6


def changed(file: Path, **fields: object) -> Path:
    data = json.loads(file.read_text())
    other = file.with_name("changed.json")
    other.write_text(json.dumps({**data, **fields}))
    return other


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model": "other", "target": "0"}, "is a chat with 'other', and this is 'target'"),
        ({"version": 2}, "no chat that this edgespec can read"),
        ({"messages": [{"role": "user", "content": "?"}]}, "no chat that this edgespec can read"),
        ({"messages": [{"role": "user"}, {"role": "assistant"}]}, "no chat that this edgespec"),
        ({"messages": "text"}, r"no saved chat \(messages is 'text'\)"),
        ({"options": {"temperature": -1}}, "cannot go on with this pair: temperature is -1"),
        ({"options": {"nosuch": 1}}, "cannot go on with this pair: .*nosuch"),
        ({"options": {"logit_bias": {"x": 1}}}, "its logit_bias is damaged"),
        ({"more": 1}, "unknown field 'more'"),
    ],
)
def test_what_is_no_chat_of_this_model_is_one_line_and_nothing_changes(
    pair, tmp_path, fields, said
):
    save_chat(begun(pair), tmp_path / "chat.json")
    conversation = begun(pair, seed=9)
    before = (conversation.messages, conversation.system, conversation.given)
    with pytest.raises(EdgespecError, match=said) as error:
        open_chat(conversation, changed(tmp_path / "chat.json", **fields))
    assert "\n" not in str(error.value)
    assert (conversation.messages, conversation.system, conversation.given) == before


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"null"])
def test_a_damaged_file_is_one_line(pair, tmp_path, content):
    (tmp_path / "chat.json").write_bytes(content)
    with pytest.raises(EdgespecError, match="no saved chat"):
        open_chat(Conversation(pair, None, OPTIONS), tmp_path / "chat.json")


def test_a_missing_chat_names_those_that_there_are(pair, chat_folder):
    save_chat(begun(pair), chat_file("holiday"))
    said = run("chat", chat_folder, "--threads", 1, "--load", "holliday", input="", code=1).stderr
    assert said.endswith("No such file or directory; there is: holiday\n")
    assert said.count("\n") == 1


def test_another_export_of_the_model_is_said(pair, tmp_path):
    save_chat(begun(pair), tmp_path / "chat.json")
    differs = open_chat(
        Conversation(pair, None, OPTIONS), changed(tmp_path / "chat.json", target="0")
    )
    assert "another export of target" in differs


# --- settings ------------------------------------------------------------------------------------


@pytest.fixture
def settings(pair) -> ChatSettings:
    conversation = Conversation(pair, None, dict(OPTIONS))
    return ChatSettings.of_command(chat, frozenset(OPTIONS) | {"gamma"}, conversation, Shown())


def test_an_option_of_the_command_is_set_as_there(settings):
    assert settings.set("temperature", "0.5") == "temperature: 0.5"
    assert settings.set("logit-bias", "7=-2") == 'logit_bias: {"7": -2.0}'
    assert settings.set("gamma", "3") == "gamma: 3"
    assert settings.conversation.options["logit_bias"] == {7: -2.0}
    assert settings.set("gamma", "default") == "gamma: as by default"
    assert settings.set("thinking", "on") == "thinking: on"
    assert settings.shown.thinking


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("temperatur", "1", "no setting 'temperatur'; the nearest is temperature"),
        ("qqq", "1", "no setting 'qqq'; /set lists them"),
        ("temperature", "-1", "temperature is -1"),
        ("temperature", "warm", "temperature: 'warm' is not a number"),
        ("draft", "nosuch", "draft: 'nosuch' is not one of"),
        ("markdown", "maybe", "markdown is 'maybe'; give on or off"),
        ("greedy", "on", "no setting 'greedy'"),
    ],
)
def test_what_is_refused_changes_nothing(settings, name, value, said):
    before = dict(settings.conversation.given)
    with pytest.raises(UsageError, match=said):
        settings.set(name, value)
    assert settings.conversation.given == before
