"""Claim: values of a chat template (thinking on and off) are in JavaScript what the template makes
of them, or refused in one sentence."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from chat_corpus import CONVERSATIONS, TEMPLATES
from edgespec.chat.chat_template import ChatTemplate
from edgespec.errors import UsageError
from edgespec_export.checkpoint.template_texts import chat_format

PACKAGE = Path(__file__).parents[2] / "runtimes" / "js"
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="Node.js is not installed"),
    pytest.mark.skipif(
        not (PACKAGE / "dist").is_dir(), reason="run npm ci && npm run build in runtimes/js"
    ),
]
NAMED = {"bos_token": "<s>", "eos_token": "</s>"}
SCRIPT = f"""
import {{ readFileSync }} from "node:fs";
import {{ chatText, withOptions }} from "{PACKAGE}/dist/pair/chat-format.js";
const made = (format, messages, values) => {{
  try {{ return [chatText(withOptions(format, values), messages).text, ""]; }}
  catch (error) {{ return [null, `${{error.name}}: ${{error.message}}`]; }}
}};
const {{ forms, tasks }} = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(tasks.map(([form, ...given]) => made(forms[form], ...given))));
"""
VALUES = [
    {},
    {"enable_thinking": False},
    {"enable_thinking": True},
    {"enable_thinking": None},
    {"enable_thinking": "no"},
    {"thinking": True},
    {"reasoning_effort": "high"},
    {"reasoning_effort": 3},
    {"enable_thinking": False, "unknown": 1},
    {"namespace": 1},
    {"unknown": [1, None]},
]
SHAPES = ("one message", "three turns", "turns after a system prompt")


def in_javascript(forms, tasks):
    command = [str(NODE), "--input-type=module", "-e", SCRIPT]
    given = json.dumps({"forms": forms, "tasks": tasks})
    done = subprocess.run(command, input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_values_of_every_template_are_what_it_makes_of_them_or_refused():
    templates = {name: ChatTemplate(text, NAMED) for name, text in TEMPLATES.items()}
    forms = {name: chat_format(template) for name, template in templates.items()}
    known = {name: asdict(form) for name, form in forms.items() if form is not None}
    tasks = [
        [name, CONVERSATIONS[shape], values]
        for name in known
        for shape in SHAPES
        for values in VALUES
    ]
    taken = 0
    for (name, messages, values), (text, refusal) in zip(
        tasks, in_javascript(known, tasks), strict=True
    ):
        if text is None:
            assert refusal.startswith("UsageError: ")
            assert "ask from Python" in refusal or "takes no system prompt" in refusal
        else:
            taken += 1
            assert text == templates[name].render(messages, options=values), (name, values)
        assert is_taken_in_python(forms[name], messages, values) == (text is not None)
    assert taken > 0.6 * len(tasks)


def is_taken_in_python(form, messages, values) -> bool:
    """Without Jinja."""
    try:
        form.with_options(values).text(messages)
    except UsageError:
        return False
    return True


@pytest.mark.parametrize("values", ["enable_thinking", None, [1], 7])
def test_values_that_are_no_object_are_one_sentence(values):
    form = asdict(chat_format(ChatTemplate(TEMPLATES["chatml"], NAMED)))
    ((text, refusal),) = in_javascript({"it": form}, [["it", CONVERSATIONS["one message"], values]])
    assert text is None
    assert refusal.startswith("UsageError: chatTemplateKwargs is ")
