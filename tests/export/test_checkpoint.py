"""Claim: a folder and a GGUF file open as the same kind of object, or one line says why not."""

import json

import gguf
import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE

from chat_templates import CHATML
from checkpoints import write_llama, write_t5
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.checkpoint import open_checkpoint, open_weights
from edgespec_export.checkpoint.sources import Source
from edgespec_export.export_pair import export_pair
from tiny_checkpoints import ENDOFTEXT, IM_END, write_gguf, write_safetensors


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
def test_the_end_tokens_of_the_generation_config_come_first(folder, generation, config, ids):
    write(folder, "config.json", {"eos_token_id": config})
    write(folder, "generation_config.json", {"eos_token_id": generation})
    assert opened(folder).eos_token_ids == ids


@pytest.mark.parametrize("value", ["2", [None], -1, True, 1.0])
def test_an_end_that_is_no_token_is_refused(folder, value):
    write(folder, "config.json", {"eos_token_id": value})
    assert "eos_token_id" in message_of(folder)


@pytest.mark.parametrize("value", [None, []])
def test_a_checkpoint_may_name_no_end_until_its_family_is_known(folder, value):
    write(folder, "config.json", {"eos_token_id": value})
    assert opened(folder).eos_token_ids == ()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'"x"'])
@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_a_corrupt_config_is_one_line(folder, name, content):
    (folder / name).write_bytes(content)
    assert name in message_of(folder)


def test_a_folder_that_is_not_a_checkpoint_is_one_line(tmp_path):
    assert "no config.json" in message_of(tmp_path)
    assert "no config.json" in message_of(tmp_path / "nosuch")


def long_value() -> str:
    return "x" * 100_000


@pytest.mark.parametrize("key", ["eos_token_id", "extra_ids", "model_type"])
def test_a_long_bad_value_is_shortened_in_the_message(tmp_path, key):
    target = write_llama(tmp_path / "target", layers=1)
    (target / "generation_config.json").unlink()
    if key == "extra_ids":
        (target / "tokenizer.json").unlink()
        (target / "spiece.model").touch()
        write(target, "tokenizer_config.json", {"extra_ids": long_value()})
    else:
        config = json.loads((target / "config.json").read_text())
        write(target, "config.json", {**config, key: long_value()})
    with pytest.raises(EdgespecError) as caught:
        export_pair(str(target), None, tmp_path / "pair")
    assert key in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("write_model", "key"),
    [
        (write_llama, "num_hidden_layers"),
        (write_t5, "num_layers"),
        (write_t5, "num_decoder_layers"),
    ],
)
def test_more_layers_than_tensors_are_refused_before_any_loop(tmp_path, write_model, key):
    folder = write_model(tmp_path / "target", **{key: 10**7})
    said = message_of(folder)
    assert f"{key} = 10000000" in said
    assert f"{len(open_weights(folder).names())} tensors" in said


@pytest.mark.parametrize("change", [{"num_experts": 10**7}, {"encoder": {"num_layers": 10**7}}])
def test_more_experts_or_layers_of_a_part_than_tensors_are_refused(tmp_path, change):
    folder = write_llama(tmp_path / "target")
    config = json.loads((folder / "config.json").read_text())
    write(folder, "config.json", {**config, **change})
    assert "= 10000000, and the checkpoint has " in message_of(folder)


# --- drafts with a reduced vocabulary ------------------------------------------------------------


def test_a_draft_without_the_list_of_its_tokens_is_not_paired(tmp_path):
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
    assert checkpoint.chat is not None
    assert checkpoint.chat.before == "<|im_start|>user\n"
    assert checkpoint.chat.after == "<|im_end|>\n<|im_start|>assistant\n"
    assert gguf.GGUFReader(path).fields  # the file is one gguf itself can read
