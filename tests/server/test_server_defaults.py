"""Claim: what a request does not say is as the model's publisher set it, else as at OpenAI."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")

from edgespec.artifact.generation_defaults import GenerationDefaults
from edgespec.openai.openai_api import chat_request, text_request

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
TEXT = {"prompt": "hi"}
RAW = {"chat": False}  # a completion goes on with its prompt as it is
SILENT = GenerationDefaults()
OWN = GenerationDefaults(temperature=0.6, top_k=20, max_new_tokens=99)


def test_a_model_without_settings_has_openais_defaults():
    chat, text = chat_request(CHAT, SILENT), text_request(TEXT, SILENT)
    assert chat.options == {"temperature": 1.0, "max_new_tokens": 512}
    assert text.options == {"temperature": 1.0, "max_new_tokens": 16, **RAW}


def test_the_model_s_own_settings_are_the_defaults():
    chat, text = chat_request(CHAT, OWN), text_request(TEXT, OWN)
    assert chat.options == {"temperature": 0.6, "top_k": 20, "max_new_tokens": 99}
    assert text.options == {"temperature": 0.6, "top_k": 20, "max_new_tokens": 16, **RAW}


@pytest.mark.parametrize(
    ("read", "body", "always"), [(chat_request, CHAT, {}), (text_request, TEXT, RAW)]
)
def test_a_request_replaces_what_it_says(read, body, always):
    asked = {**body, "temperature": 0, "top_k": 0, "max_tokens": 5}
    said = {"temperature": 0, "top_k": 0, "max_new_tokens": 5}
    assert read(asked, OWN).options == said | always


def test_a_model_that_its_publisher_decodes_greedily_is_greedy():
    assert chat_request(CHAT, GenerationDefaults(temperature=0.0)).options["temperature"] == 0
