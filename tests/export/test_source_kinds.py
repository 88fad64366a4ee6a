"""Claim: a source that is not a model's own weights is called what it is, with a way out."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from checkpoints import write_llama
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec_export.export_pair import export_pair

LORA = {"peft_type": "LORA", "base_model_name_or_path": "meta-llama/Llama-3.2-1B"}


def export(source, out):
    export_pair(str(source), None, out, measure=False, threads=1)


def with_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


def with_tensors(folder, **tensors):
    path = folder / "model.safetensors"
    save_file({**load_file(path), **tensors}, path)
    return folder


def add_adapter(folder):
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(LORA))
    save_file(
        {"a.lora_A.weight": np.zeros((2, 2), np.float32)}, folder / "adapter_model.safetensors"
    )
    return folder


@pytest.mark.parametrize("with_a_config", [False, True])
def test_an_adapter_is_called_one_with_its_base(with_a_config, tmp_path):
    folder = add_adapter(tmp_path / "lora")
    if with_a_config:
        (folder / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(
        EdgespecError,
        match=r"is an adapter of 'meta-llama/Llama-3\.2-1B'.* export meta-llama/Llama-3\.2-1B "
        r"--adapter .*lora$",
    ) as error:
        export(folder, tmp_path / "pair")
    assert "\n" not in str(error.value)


def test_an_adapter_beside_whole_weights_is_named(tmp_path, caplog):
    source = add_adapter(write_llama(tmp_path / "checkpoint"))
    with caplog.at_level(logging.WARNING, logger="edgespec"):
        export(source, tmp_path / "pair")
    (line,) = [record.getMessage() for record in caplog.records if "adapter" in record.getMessage()]
    assert "not applied; --adapter" in line


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        ({"bits": 4, "group_size": 128, "quant_method": "awq"}, "awq"),
        ({"bits": 4, "quant_method": "gptq", "modules_to_not_convert": None}, "gptq"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "compressed-tensors", "format": "pack-quantized"}, "compressed-tensors"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "gguf-of-tomorrow"}, "gguf-of-tomorrow"),
    ],
)
def test_a_quantized_source_names_its_method_and_the_way_out(settings, method, tmp_path):
    """Of a config that says it and weights that are plain, or of a method that is not read."""
    source = with_config(write_llama(tmp_path / "checkpoint"), quantization_config=settings)
    with pytest.raises(
        EdgespecError, match=rf"quantized by {method}.*; take the model's unquantized checkpoint"
    ) as error:
        export(source, tmp_path / "pair")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("model.layers.0.mlp.up_proj.qweight", "awq"),
        ("model.layers.0.mlp.up_proj.g_idx", "gptq"),
        ("model.layers.0.mlp.up_proj.weight_scale_inv", "fp8"),
        ("model.layers.0.mlp.up_proj.weight.absmax", "bitsandbytes"),
        ("model.layers.0.mlp.up_proj.scales", "MLX"),
        ("model.layers.0.mlp.up_proj._weight_qdata", "torchao"),
        ("model.layers.0.mlp.up_proj.weight._data", "quanto"),
        ("model.layers.0.mlp.up_proj.W_q", "hqq"),
    ],
)
def test_quantized_tensors_are_known_without_a_key(name, method, tmp_path):
    source = with_tensors(
        write_llama(tmp_path / "checkpoint"), **{name: np.zeros((2, 2), np.float32)}
    )
    with pytest.raises(EdgespecError, match=f"quantized by {method}"):
        export(source, tmp_path / "pair")


def test_plain_weights_that_are_to_be_quantized_at_loading_are_read(tmp_path):
    wish = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    source = with_config(write_llama(tmp_path / "checkpoint"), quantization_config=wish)
    export(source, tmp_path / "pair")
    assert read_manifest(tmp_path / "pair").target.family == "llama"


def test_an_unknown_family_comes_before_how_it_is_stored_and_where_it_ends(tmp_path):
    source = with_config(
        write_llama(tmp_path / "checkpoint", eos_token_id=None),
        model_type="deepseek_v3",
        quantization_config={"quant_method": "nvfp4"},
    )
    with pytest.raises(EdgespecError, match="model_type is 'deepseek_v3'"):
        export(source, tmp_path / "pair")
