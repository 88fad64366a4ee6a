"""Claim: conversations survive the end of the program: of a chat that is saved with its cache, and
of a server that keeps prompts in a folder. Answers are those of a program that never ended."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import edgespec
from command import EDGESPEC
from depth import deep
from edgespec.artifact.chat_format import user_message

pytestmark = [
    deep,  # three processes; test_kept_folder.py and test_saved_chats.py say it of pairs
    pytest.mark.skipif(sys.platform == "win32", reason="signals and pseudo-terminals"),
]
LONG = "Tell me of the light, the fog, the boats and the men who keep them. " * 3
NEXT = "And then?"
TOKENS = 20


def test_a_chat_goes_on_where_it_was_saved_without_reading_it_again(chat_folder, tmp_path):
    from terminals import Terminal

    options = ("chat", chat_folder, "-n", TOKENS, "--min-tokens", TOKENS, "--threads", 1)
    home = str(tmp_path / "home")

    def talked(steps):
        with Terminal(*options, "--greedy", EDGESPEC_HOME=home, columns=120, lines=60) as terminal:
            for line, arrives in steps:
                terminal.wait(lambda: terminal.text.rstrip().endswith("message or /help"))
                terminal.enter(line)
                terminal.wait(lambda arrives=arrives: arrives in terminal.text)
            terminal.enter("/bye")
            assert terminal.ended() == 0

    chat = tmp_path / "home" / "chats" / "kept.json"
    ended = f"(ended at {TOKENS} tokens"
    talked([(LONG, ended), ("/save kept --cache", "saved as")])
    cache = chat.with_name("kept.json.edgespec-cache")
    assert cache.stat().st_size > 10_000
    talked([("/load kept", "need not read them again"), (NEXT, ended), ("/save kept", "saved as")])
    assert not cache.exists()
    saved = [message["content"] for message in json.loads(chat.read_text())["messages"]]
    assert [saved[0], saved[2]] == [LONG.strip(), NEXT]
    pair = edgespec.load(chat_folder, threads=1)
    messages = []
    for question, answer in zip(saved[::2], saved[1::2], strict=True):
        messages.append(user_message(question))
        greedy = {"temperature": 0.0, "max_new_tokens": TOKENS, "min_tokens": TOKENS}
        assert pair.generate(messages, **greedy).text.strip() == answer.strip()
        messages.append({"role": "assistant", "content": answer})


def asked(port: int, messages) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = {"messages": messages, "temperature": 0, "max_tokens": TOKENS}
    headers = {"content-type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer["choices"][0]["message"]["content"]


def port_of(server: subprocess.Popen) -> int:
    assert server.stderr is not None
    for line in server.stderr:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)/v1", line):
            return int(found[1])
    raise AssertionError("it did not begin to listen")


@contextmanager
def served(chat_folder, kept) -> Iterator[int]:
    """The port of a server that runs until the block ends."""
    options = ["--port", "0", "--threads", "1", "--target-format", "int8"]
    arguments = [EDGESPEC, "serve", chat_folder, *options, "--prompt-cache", kept]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as server:
        try:
            yield port_of(server)
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


def test_conversations_go_on_after_the_server_was_started_anew(chat_folder, tmp_path):
    users = [[user_message(name + LONG)] for name in "ab"]
    with served(chat_folder, tmp_path) as port:
        for messages in users:
            messages.append({"role": "assistant", "content": asked(port, messages)})
    kept = list(tmp_path.rglob("*.prefix"))
    assert len(kept) == 2
    with served(chat_folder, tmp_path) as port:
        for messages in users:
            for file in kept:
                os.utime(file, (0, 0))
            messages.append(user_message(NEXT))
            messages.append({"role": "assistant", "content": asked(port, messages)})
            (used,) = (file for file in kept if file.stat().st_mtime > 0)
            kept.remove(used)  # what was said since replaces it
    pair = edgespec.load(chat_folder, threads=1, target_format="int8")
    for messages in users:
        for end in (1, 3):
            text = pair.generate(messages[:end], temperature=0.0, max_new_tokens=TOKENS).text
            assert text == messages[end]["content"]
