"""Claim: a LoRA is merged into its model at export, or refused in one line.

The weights are those of the formulas (tests/adapters.py), and the exported model is that of these
weights.
"""

from __future__ import annotations

import json
import logging
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import edgespec
from adapters import write_adapter
from checkpoints import byte_tokenizer, write_llama
from command import run
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.checkpoint.weights import read_rows
from edgespec_export.verify import differences
from quantized_checkpoints import Layout, four_bits, write_plain, write_quantized

LAYER = "model.layers.0"
ATTENTION = [f"{LAYER}.self_attn.{part}_proj" for part in "qvo"]
MLP = [f"{LAYER}.mlp.{part}_proj" for part in ("gate", "down")]
TABLE = "model.embed_tokens.weight"
CASES = {
    "attention": (ATTENTION, {}),
    "all with a root": ([*ATTENTION, *MLP], {"root": True}),
    "the head": ([*MLP, "lm_head"], {}),
    "ranks and alphas of modules": (
        [*ATTENTION, *MLP],
        {"ranks": {"down_proj": 7}, "alphas": {"v_proj": 3.0, "layers.0.mlp.down_proj": 5.0}},
    ),
    "DoRA": ([*ATTENTION, *MLP], {"dora": True}),
    "another prefix": (ATTENTION, {"prefix": "model."}),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base") / "checkpoint"
    sizes = {"layers": 1, "heads": 2, "head_size": 16, "inner": 64}
    return write_llama(folder, vocab_size=272, tokenizer=byte_tokenizer(272), **sizes)


def opened(base, adapter):
    return open_checkpoint(resolve(str(base), str(adapter))).weights


def assert_close(weights, expected):
    assert weights.names() == sorted(expected)
    for name, tensor in expected.items():
        assert weights.shape(name) == tensor.shape
        np.testing.assert_allclose(weights.read(name), tensor, rtol=1e-5, atol=1e-6)
        rows = read_rows(weights, name, 3, 9)
        np.testing.assert_allclose(rows, tensor[3:9], rtol=1e-5, atol=1e-6)


def message_of(base, adapter):
    with pytest.raises(EdgespecError) as caught:
        opened(base, adapter)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def changed_config(folder, **changes):
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | changes))
    return folder


# --- the weights ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_every_matrix_is_changed_as_the_formula_says(case, base, tmp_path):
    modules, options = CASES[case]
    expected = write_adapter(base, tmp_path / "lora", modules, **options)
    assert_close(opened(base, tmp_path / "lora"), expected)


@pytest.mark.parametrize("dora", [False, True])
def test_matrices_that_are_stored_the_other_way_round(dora, tmp_path):
    """GPT-2's `Conv1D`, of which some are square."""
    (tmp_path / "gpt2").mkdir()
    rng = np.random.default_rng(0)
    shapes = {"c_attn": (32, 96), "c_proj": (32, 32)}
    tensors = {
        f"h.0.attn.{name}.weight": rng.normal(0, 1, shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    save_file(tensors, tmp_path / "gpt2" / "model.safetensors")
    modules = ["h.0.attn.c_attn", "h.0.attn.c_proj"]
    expected = write_adapter(
        *(tmp_path / "gpt2", tmp_path / "lora", modules),
        transposed=True,
        dora=dora,
        prefix="transformer.",
    )
    from edgespec_export.checkpoint.adapter.merged import merged
    from edgespec_export.checkpoint.checkpoint import open_weights

    assert_close(merged(tmp_path / "lora", open_weights(tmp_path / "gpt2"), "gpt2"), expected)
    changed_config(tmp_path / "lora", fan_in_fan_out=False)  # as it is where peft guessed it
    assert_close(merged(tmp_path / "lora", open_weights(tmp_path / "gpt2"), "gpt2"), expected)


def test_modules_that_were_trained_as_a_whole_take_the_place_of_the_models(base, tmp_path):
    rng = np.random.default_rng(1)
    own = load_file(base / "model.safetensors")
    names = (TABLE, "lm_head.weight", "model.norm.weight")
    whole = {name: rng.normal(0, 1, own[name].shape).astype(np.float32) for name in names}
    expected = write_adapter(base, tmp_path / "lora", ATTENTION, whole=whole)
    assert_close(opened(base, tmp_path / "lora"), expected)


def test_an_embedding_has_its_matrices_the_other_way_round(base, tmp_path):
    write_adapter(base, tmp_path / "lora", [])
    own = load_file(base / "model.safetensors")[TABLE]
    rng = np.random.default_rng(2)
    a = rng.normal(0, 1, (4, len(own))).astype(np.float32)
    b = rng.normal(0, 1, (own.shape[1], 4)).astype(np.float32)
    at = "base_model.model.model.embed_tokens"
    save_file(
        {f"{at}.lora_embedding_A": a, f"{at}.lora_embedding_B": b, f"{at}.base_layer.weight": own},
        tmp_path / "lora" / "adapter_model.safetensors",
    )
    read = opened(base, tmp_path / "lora").read(TABLE)
    np.testing.assert_allclose(read, own + 3 * (b @ a).T, rtol=1e-4, atol=1e-5)


def test_biases_are_replaced_and_shifted(tmp_path):
    base = write_llama(tmp_path / "base", layers=1, heads=2, head_size=16, attention_bias=True)
    bias = f"{LAYER}.self_attn.q_proj.bias"
    own = load_file(base / "model.safetensors")[bias]
    expected = write_adapter(base, tmp_path / "lora", ATTENTION[:1], whole={bias: own + 2})
    path = tmp_path / "lora" / "adapter_model.safetensors"
    shift = np.arange(len(own), dtype=np.float32)
    save_file(
        load_file(path) | {f"base_model.model.{bias.replace('.bias', '.lora_B.bias')}": shift}, path
    )
    expected[bias] = own + 2 + 3 * shift
    assert_close(opened(base, tmp_path / "lora"), expected)


def test_a_quantized_model_is_dequantized_first(base, tmp_path):
    """As an adapter of QLoRA was trained."""
    nf4 = Layout(lambda *at: four_bits(*at, nested=True), {"quant_method": "bitsandbytes"})
    tensors = write_quantized(base, tmp_path / "q", nf4)
    write_plain(base, tmp_path / "plain", tensors)
    expected = write_adapter(tmp_path / "plain", tmp_path / "lora", ATTENTION)
    assert_close(opened(tmp_path / "q", tmp_path / "lora"), expected)


def test_parts_that_read_images_are_left_out(base, tmp_path, caplog):
    expected = write_adapter(base, tmp_path / "lora", ATTENTION)
    path = tmp_path / "lora" / "adapter_model.safetensors"
    at = "base_model.model.model.vision_tower.layers.0.q_proj"
    small = np.zeros((4, 4), np.float32)
    save_file(load_file(path) | {f"{at}.lora_A.weight": small, f"{at}.lora_B.weight": small}, path)
    with caplog.at_level(logging.INFO, logger="edgespec"):
        assert_close(opened(base, tmp_path / "lora"), expected)
    assert "2 tensors of other parts of the model left out" in caplog.text


# --- the model -----------------------------------------------------------------------------------


def test_the_export_is_the_model_of_these_weights(base, tmp_path):
    expected = write_adapter(base, tmp_path / "lora", [*ATTENTION, *MLP])
    out = tmp_path / "pair"
    options = ("--adapter", tmp_path / "lora", "--target-format", "fp32", "--threads", 1)
    result = run("export", base, "--no-draft", "-o", out, *options)
    assert result.exit_code == 0, result.output
    target = read_manifest(out).target
    assert target.source == f"{base} + {tmp_path / 'lora'}"
    model = open_model(out, target, "fp32", min_rows=2)
    reference = write_plain(base, tmp_path / "plain", expected)
    assert differences(reference, target, model)["decoder"] <= 1e-5
    as_verify = differences(base, target, model, adapter=tmp_path / "lora")
    assert as_verify["decoder"] <= 1e-5
    assert differences(base, target, model)["decoder"] > 1e-2
    pair = edgespec.load(out, threads=1)
    prompt = list(range(40, 60)) * 3
    alone = pair.generate(prompt, max_new_tokens=24, temperature=0, draft=False).token_ids
    assert pair.generate(prompt, max_new_tokens=24, temperature=0, gamma=4).token_ids == alone


def test_a_chat_template_beside_an_adapter_is_the_models(base, tmp_path):
    write_adapter(base, tmp_path / "lora", ATTENTION)
    assert open_checkpoint(resolve(str(base), str(tmp_path / "lora"))).template is None
    template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}"
    (tmp_path / "lora" / "chat_template.jinja").write_text(template)
    checkpoint = open_checkpoint(resolve(str(base), str(tmp_path / "lora")))
    assert checkpoint.template is not None
    assert checkpoint.template.template == template
    assert checkpoint.chat is not None


def test_a_pair_in_the_cache_is_of_its_adapter(base, tmp_path, monkeypatch):
    from edgespec.library.exporting import export_request
    from edgespec.library.pair_cache import cached_folder

    write_adapter(base, tmp_path / "one", ATTENTION)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    folders = {
        cached_folder(export_request(str(base), no_draft=True, adapter=adapter))
        for adapter in (None, str(tmp_path / "one"), str(tmp_path / "two"))
    }
    assert len(folders) == 3


# --- what is refused -----------------------------------------------------------------------------


def test_an_adapter_of_another_model_is_one_line(base, tmp_path):
    write_adapter(base, tmp_path / "lora", ATTENTION)
    wider = write_llama(tmp_path / "wider", layers=1, heads=3, head_size=16)
    message = message_of(wider, tmp_path / "lora")
    assert "is no adapter of" in message
    assert "'somewhere/base'" in message
    assert "_proj.weight as [32, 32], and there it is [48, 48]" in message
    deeper = write_llama(tmp_path / "deeper", layers=2, heads=2, head_size=16, vocab_size=272)
    write_adapter(deeper, tmp_path / "deep", ["model.layers.1.mlp.up_proj"])
    assert "changes 'model.layers.1.mlp.up_proj'" in message_of(base, tmp_path / "deep")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3', only LORA is merged"),
        ({"init_lora_weights": "pissa_niter_4"}, "changed its model's own weights"),
        ({"trainable_token_indices": [3]}, "trainable_token_indices = [3], which is not read"),
        ({"layer_replication": [[0, 1]]}, "layer_replication"),
        ({"a_key_of_tomorrow": 3}, "a_key_of_tomorrow = 3, which is not read"),
        ({"alpha_pattern": {"(": 2}}, "a value of the wrong kind"),
        ({"lora_alpha": "much"}, "a value of the wrong kind"),
    ],
)
def test_what_is_not_merged_is_named(changes, said, base, tmp_path):
    write_adapter(base, tmp_path / "lora", ATTENTION)
    assert said in message_of(base, changed_config(tmp_path / "lora", **changes))


def test_tensors_that_are_not_loras_are_named(base, tmp_path):
    write_adapter(base, tmp_path / "lora", ATTENTION)
    path = tmp_path / "lora" / "adapter_model.safetensors"
    tensors = load_file(path)
    save_file(tensors | {"base_model.model.x.hada_w1_a": tensors.popitem()[1]}, path)
    assert "'base_model.model.x.hada_w1_a' is not one of LoRA's" in message_of(base, path.parent)
    one = {name: tensor for name, tensor in tensors.items() if "q_proj.lora_A" in name}
    save_file(one, path)
    assert "only one of the two matrices" in message_of(base, path.parent)


def test_an_embedding_that_is_the_head_too_is_not_changed_alone(tmp_path):
    tied = write_llama(tmp_path / "tied", layers=1, tie_word_embeddings=True)
    table = load_file(tied / "model.safetensors")[TABLE]
    write_adapter(tied, tmp_path / "lora", [], whole={TABLE: table + 1})
    assert "embedding is its head, too" in message_of(tied, tmp_path / "lora")
    both = {TABLE: table + 1, "lm_head.weight": table - 1}
    expected = write_adapter(tied, tmp_path / "both", [], whole=both)
    assert_close(opened(tied, tmp_path / "both"), expected)


def test_a_folder_without_an_adapter_is_one_line(base, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "has no adapter_config.json" in message_of(base, tmp_path / "empty")
    write_adapter(base, tmp_path / "lora", ATTENTION)
    (tmp_path / "lora" / "adapter_model.safetensors").unlink()
    assert "adapter without weights" in message_of(base, tmp_path / "lora")
