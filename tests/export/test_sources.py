"""Claim: a model's name leads to its checkpoint, and an unknown name is one line.

The hub is not contacted: a class with the same signature replaces `snapshot_download`.
"""

import fnmatch
import json
import re
import sys

import huggingface_hub
import pytest
from huggingface_hub import errors

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.sources import ALIASES, resolve


class Hub:
    """Replaces `snapshot_download`: records its calls, writes files, or raises."""

    def __init__(self, folder):
        self.folder, self.calls, self.files, self.error = folder, [], ["model.safetensors"], None

    def snapshot_download(self, repository, *, revision=None, allow_patterns):
        self.calls.append((repository, revision, allow_patterns))
        if self.error is not None:
            raise self.error
        for name in self.files:
            (self.folder / name).touch()
        return str(self.folder)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    folder = tmp_path / "snapshot"
    folder.mkdir()
    replacement = Hub(folder)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", replacement.snapshot_download)
    monkeypatch.chdir(tmp_path)
    return replacement


def message_of(name) -> str:
    with pytest.raises(EdgespecError) as caught:
        resolve(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def hub_error(kind, message="a\nmulti-line\nmessage"):
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    return error


# --- local ---------------------------------------------------------------------------------------


def test_a_folder_and_a_gguf_file_are_used_without_the_hub(tmp_path, hub):
    (tmp_path / "mine").mkdir()
    (tmp_path / "x.gguf").touch()
    for name in ("mine", "x.gguf", str(tmp_path / "mine")):
        source = resolve(name)
        assert source.path.exists()
        assert source.label == name
    assert hub.calls == []


def test_a_checkpoint_folder_comes_before_a_short_name_and_another_folder_after(tmp_path, hub):
    (tmp_path / "t5-small").mkdir()
    assert resolve("t5-small").path == hub.folder
    (tmp_path / "t5-small" / "config.json").touch()
    assert str(resolve("t5-small").path) == "t5-small"


def test_another_file_is_refused(tmp_path, hub):
    (tmp_path / "model.onnx").touch()
    assert "not a checkpoint folder" in message_of("model.onnx")


NOWHERE = ["nosuch", "./a/b", "/a/b", "~/b", "a/b/c", "x.gguf", "a/b.gguf", "x" * 100_000, "a\0b"]


@pytest.mark.parametrize("name", NOWHERE, ids=lambda name: name[:9].replace("\0", "0"))
def test_a_name_that_is_neither_path_nor_hub_id_is_refused(hub, name):
    message = message_of(name)
    assert "no such folder" in message
    assert len(message) < 500
    assert hub.calls == []


def test_an_empty_name_is_refused(hub):
    assert "no such folder" in message_of("")


def test_a_misspelt_short_name_lists_similar_ones(hub):
    assert "t5-small" in message_of("t5-smal")


# --- the hub -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "repository", "revision", "label"),
    [
        ("t5-xxl", "google/t5-v1_1-xxl", None, "t5-xxl → google/t5-v1_1-xxl"),
        ("Qwen3-0.6B", "Qwen/Qwen3-0.6B", None, "Qwen3-0.6B → Qwen/Qwen3-0.6B"),
        (
            "smollm2-1.7b@v1",
            "HuggingFaceTB/SmolLM2-1.7B-Instruct",
            "v1",
            "smollm2-1.7b@v1 → HuggingFaceTB/SmolLM2-1.7B-Instruct@v1",
        ),
        ("owner/some.model-1", "owner/some.model-1", None, "owner/some.model-1"),
        ("owner/model@refs/pr/7", "owner/model", "refs/pr/7", "owner/model@refs/pr/7"),
    ],
)
def test_a_name_leads_to_its_repository(hub, name, repository, revision, label):
    source = resolve(name)
    assert (source.path, source.label) == (hub.folder, label)
    assert [call[:2] for call in hub.calls] == [(repository, revision)]


def test_every_short_name_is_lower_case_and_leads_to_a_hub_id():
    for name, repository in ALIASES.items():
        assert name == name.lower()
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", repository)


def test_pytorch_weights_are_only_fetched_where_there_are_no_safetensors(hub):
    resolve("owner/model")
    assert not any("pytorch" in pattern for _, _, patterns in hub.calls for pattern in patterns)
    hub.calls.clear()
    (hub.folder / "model.safetensors").unlink()
    hub.files = ["config.json"]
    resolve("owner/model")
    assert [any("pytorch" in pattern for pattern in call[2]) for call in hub.calls] == [False, True]


def write_index(folder, shards, name="model.safetensors.index.json"):
    weight_map = {f"tensor{number}": shard for number, shard in enumerate(shards)}
    (folder / name).write_text(json.dumps({"weight_map": weight_map}))


def test_a_sharded_checkpoint_counts_as_safetensors(hub):
    hub.files = ["model-00001-of-00002.safetensors"]
    write_index(hub.folder, hub.files)
    resolve("owner/model")
    assert len(hub.calls) == 1


@pytest.mark.parametrize(
    "shards",
    [
        ["model.safetensors-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
        ["pytorch_model-00001-of-00001.safetensors"],
        ["a[1].safetensors", "part*.safetensors"],
    ],
)
def test_shards_of_any_name_that_the_index_gives_are_fetched(hub, shards):
    hub.files = ["model-00002-of-00002.safetensors"]
    write_index(hub.folder, shards)
    resolve("owner/model")
    (_, _, patterns) = hub.calls[-1]
    wanted = [shard for shard in shards if not (hub.folder / shard).is_file()]
    assert len(hub.calls) == 2
    assert len(patterns) == len(wanted)
    for shard in wanted:
        assert any(fnmatch.fnmatchcase(shard, pattern) for pattern in patterns)


def test_an_index_that_names_files_elsewhere_is_not_followed(hub):
    write_index(hub.folder, ["../../secret.safetensors"])
    assert "not a file in its folder" in message_of("owner/model")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (hub_error(errors.GatedRepoError), "is gated"),
        (hub_error(errors.RepositoryNotFoundError), "no such model on the hub"),
        (hub_error(errors.RevisionNotFoundError), "no revision 'v9'"),
        (hub_error(errors.LocalEntryNotFoundError), "no copy in the cache"),
        (hub_error(errors.OfflineModeIsEnabled), "no copy in the cache"),
        (hub_error(errors.HFValidationError, "no"), "is not a hub id"),
        (OSError("disk\nfull"), "the download failed (disk)"),
    ],
)
def test_an_error_of_the_hub_becomes_one_line(hub, error, said):
    hub.error = error
    message = message_of("owner/model@v9")
    assert message.startswith("owner/model: ")
    assert said in message


def test_every_file_that_an_export_reads_is_fetched(hub):
    """Without its list of tokens a draft with a reduced vocabulary would be read wrongly."""
    resolve("owner/model")
    ((_, _, patterns),) = hub.calls
    assert set(patterns) == {
        "config.json",
        "adapter_config.json",
        "adapter_model.safetensors",
        "quant_config.json",
        "quantize_config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "spiece.model",
        "source.spm",
        "vocab.json",
        "target_vocab.json",
        "chat_template.jinja",
        "draft_vocabulary.json",
        "model.safetensors",
        "model.safetensors.index.json",
        "model-*.safetensors",
    }


def test_a_missing_hub_package_names_the_extra(hub, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert re.search(r"pip install .*\[export\]", message_of("owner/model"))
