"""Claim: a folder and a GGUF file open to the same kind of checkpoint, or one line says why not."""

import json

import gguf
import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE

from checkpoints import write_llama
from edgespec.errors import EdgespecError
from edgespec.export import export_pair
from edgespec_export.chat import chat_format, folder_chat
from edgespec_export.checkpoint import open_checkpoint
from edgespec_export.sources import Source
from tiny_checkpoints import ENDOFTEXT, IM_END, write_gguf, write_safetensors

CHATML = (
    "{% for message in messages %}\n"
    "    {{- '<|im_start|>' + message.role + '\\n' + message['content'] + '<|im_end|>\\n' -}}\n"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@pytest.fixture
def folder(tmp_path):
    write_safetensors(tmp_path / "model.safetensors", {"x": np.ones(2, np.float32)})
    Tokenizer(BPE({"a": 0, "b": 1}, [])).save(str(tmp_path / "tokenizer.json"))
    write(tmp_path, "config.json", {"model_type": "llama", "eos_token_id": 1})
    return tmp_path


def write(folder, name, value):
    (folder / name).write_text(json.dumps(value), encoding="utf-8")


def opened(path):
    return open_checkpoint(Source(path, "label"))


def message_of(path) -> str:
    with pytest.raises(EdgespecError) as caught:
        opened(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- folders -------------------------------------------------------------------------------------


def test_a_folder_opens(folder):
    checkpoint = opened(folder)
    assert checkpoint.config["model_type"] == "llama"
    assert checkpoint.weights.names() == ["x"]
    assert checkpoint.tokenizer.encode("ab").ids == [0, 1]
    assert checkpoint.chat is None
    assert checkpoint.eos_token_ids == (1,)
    assert checkpoint.label == "label"


@pytest.mark.parametrize(
    ("generation", "config", "ids"),
    [
        (None, 1, (1,)),
        (None, [1, 0, 1], (1, 0)),
        ([5, 6], 1, (5, 6)),
        (0, [7], (0,)),
    ],
)
def test_the_generation_config_says_first_what_ends_a_text(folder, generation, config, ids):
    write(folder, "config.json", {"eos_token_id": config})
    write(folder, "generation_config.json", {"eos_token_id": generation})
    assert opened(folder).eos_token_ids == ids


@pytest.mark.parametrize("value", [None, [], "2", [None], -1, True, 1.0])
def test_a_text_must_be_able_to_end(folder, value):
    write(folder, "config.json", {"eos_token_id": value})
    assert "eos_token_id" in message_of(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'"x"'])
@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_a_corrupt_config_is_one_line(folder, name, content):
    (folder / name).write_bytes(content)
    assert name in message_of(folder)


def test_a_folder_that_is_no_checkpoint_is_one_line(tmp_path):
    assert "no config.json" in message_of(tmp_path)
    assert "no config.json" in message_of(tmp_path / "nosuch")


# --- drafts of some tokens -----------------------------------------------------------------------


def test_a_draft_that_lost_the_list_of_its_tokens_is_not_paired(tmp_path):
    target = write_llama(tmp_path / "target")
    draft = write_llama(tmp_path / "draft", vocab_size=7)
    (draft / "tokenizer.json").write_bytes((target / "tokenizer.json").read_bytes())
    with pytest.raises(
        EdgespecError, match=r"has 7 of its tokenizer's 11 tokens, and no draft_voc"
    ):
        export_pair(str(target), str(draft), tmp_path / "pair", measure=False)
    outputs = [0, 1, 2, 3, 4, 5, 9]
    inputs = [outputs.index(token) if token in outputs else 2 for token in range(11)]
    write(draft, "draft_vocabulary.json", {"outputs": outputs, "inputs": inputs})
    manifest = export_pair(str(target), str(draft), tmp_path / "pair", measure=False)
    assert manifest.draft is not None
    assert manifest.draft.vocabulary == "draft/draft_vocabulary.json"


# --- GGUF files ----------------------------------------------------------------------------------


def test_a_gguf_file_opens(tmp_path):
    path = write_gguf(tmp_path / "x.gguf", changes={"tokenizer.chat_template": CHATML})
    checkpoint = opened(path)
    assert checkpoint.config["model_type"] == "llama"
    assert checkpoint.eos_token_ids == (ENDOFTEXT, IM_END)
    assert checkpoint.chat == {
        "before": "<|im_start|>user\n",
        "after": "<|im_end|>\n<|im_start|>assistant\n",
    }
    assert gguf.GGUFReader(path).fields  # the file is one gguf itself can read


# --- chat templates ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (CHATML, ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n")),
        ("{{ bos_token }}{{ messages[0]['content'] | trim }}{{ eos_token }}", ("<s>", "</s>")),
        ("{% generation %}[{{ messages[0].content }}]{% endgeneration %}", ("[", "]")),
        ("{% for m in messages %}{{ m.content }}{% break %}{% endfor %}", ("", "")),
        ("{{ messages[0] | tojson }}", ('{"role": "user", "content": "', '"}')),
    ],
)
def test_a_template_splits_around_the_message(template, expected):
    chat = chat_format(template, {"bos_token": "<s>", "eos_token": "</s>"})
    assert chat == dict(zip(("before", "after"), expected, strict=True))


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
        "{{ ''.__class__.__mro__ }}{{ messages[0].content }}",
    ],
)
def test_a_template_that_does_not_split_gives_none(template):
    assert chat_format(template) is None


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
    chat = folder_chat(folder)
    assert chat is not None
    assert chat["before"] + "hello" + chat["after"] == expected


def test_a_template_of_a_gguf_file_finds_its_special_tokens(tmp_path):
    template = "{{ bos_token }}{{ pad_token }}{{ unk_token is defined }}{{ messages[0].content }}"
    changes = {"tokenizer.chat_template": template, "tokenizer.ggml.padding_token_id": IM_END}
    chat = opened(write_gguf(tmp_path / "x.gguf", changes=changes)).chat
    assert chat == {"before": "<|endoftext|><|im_end|>False", "after": ""}


def test_a_template_may_ask_for_the_date():
    chat = chat_format("{{ strftime_now('%Y') }} {{ messages[0].content }}")
    assert chat is not None
    assert chat["before"].strip().isdigit()


def test_the_template_file_comes_before_the_settings(tmp_path):
    assert folder_chat(tmp_path) is None
    settings = {"chat_template": "{{ eos_token }}{{ messages[0].content }}"}
    write(tmp_path, "tokenizer_config.json", settings | {"eos_token": {"content": "</s>"}})
    assert folder_chat(tmp_path) == {"before": "</s>", "after": ""}
    named = [{"name": "rag", "template": "x"}, {"name": "default", "template": CHATML}]
    write(tmp_path, "tokenizer_config.json", {"chat_template": named})
    assert (folder_chat(tmp_path) or {})["before"] == "<|im_start|>user\n"
    (tmp_path / "chat_template.jinja").write_text("Q: {{ messages[0].content }}")
    assert folder_chat(tmp_path) == {"before": "Q: ", "after": ""}


def test_the_split_is_what_transformers_renders():
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    chats = [[{"role": "user", "content": "Grüße 😀"}]]
    texts, _ = utils.render_jinja_template(chats, chat_template=CHATML, add_generation_prompt=True)
    chat = chat_format(CHATML)
    assert chat is not None
    assert texts == [chat["before"] + "Grüße 😀" + chat["after"]]
