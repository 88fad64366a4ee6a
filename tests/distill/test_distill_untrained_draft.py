"""Claim: a draft starts from its target's weights, in every shape."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from safetensors.numpy import load_file

import edgespec
from depth import deep
from distillation import (
    FAMILIES,
    PLAN,
    VOCABULARY,
    causal,
    greedily,
    seq2seq,
    untrained,
    write_family,
)
from edgespec_distill import distillation as run_module
from edgespec_distill.data.draft_vocabulary import (
    full_vocabulary,
)
from edgespec_distill.data.text_generation import (
    generate_texts,
)
from edgespec_distill.distill_draft import distill
from edgespec_distill.models import target as target_module
from edgespec_distill.models.start_weights import on_device_of
from edgespec_distill.models.untrained_draft import last_layers, untrained_draft
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.export_pair import export_pair

# Others have the same parts.
DEEP = {"mt5", "llama, tied"}


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=deep) if name in DEEP else name for name in FAMILIES]
)
def test_a_draft_of_its_targets_shape_starts_as_its_target(family, prompts, tmp_path, monkeypatch):
    """The saved draft computes the same in transformers and in the exported graphs."""
    monkeypatch.setattr(target_module, "training_dtype", lambda _: torch.float32)
    target, draft = write_family(family, tmp_path / "target"), tmp_path / "draft"
    plan = dataclasses.replace(PLAN, layers=2, width=None, steps=1, rate=1e-6)
    found = distill(str(target), prompts, draft, plan)
    assert found.before.greedy > 0.99
    assert found.before.sampled > 0.99
    assert load_file(draft / "model.safetensors").keys() == (
        load_file(target / "model.safetensors").keys()
    )
    configs = [json.loads((folder / "config.json").read_text()) for folder in (target, draft)]
    assert len({config["tie_word_embeddings"] for config in configs}) == 1
    export_pair(str(draft), None, tmp_path / "exported", verify=True, threads=1)
    export_pair(str(target), str(draft), tmp_path / "pair", threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    stats = pair.generate("green stone", gamma=3, draft="model", max_new_tokens=20).stats
    assert stats.acceptance_rate > 0.8  # the draft was rounded to fp16


def test_a_separate_head_is_trained(prompts, tmp_path):
    target, draft = write_family("t5 v1.1", tmp_path / "target"), tmp_path / "draft"
    distill(str(target), prompts, draft, dataclasses.replace(PLAN, layers=2, width=None, steps=4))
    head, table = (
        load_file(draft / "model.safetensors")[name] - load_file(target / "model.safetensors")[name]
        for name in ("lm_head.weight", "shared.weight")
    )
    assert abs(head).max() > 1e-4
    assert abs(head - table).max() > 1e-4


@pytest.mark.parametrize(
    ("family", "of", "width", "heads"),
    [
        ("t5 v1.1", {"heads": 6, "width": 64}, 32, (3, 3)),
        ("t5 v1.1", {"heads": 6, "width": 64}, 16, (2, 2)),
        ("qwen3", {"heads": 8, "kv_heads": 4, "width": 64}, 32, (4, 2)),
        ("qwen3", {"heads": 8, "kv_heads": 4, "width": 64}, 16, (2, 1)),
        # Not 6 heads: transformers requires a divisor of the width.
        ("llama", {"heads": 7, "width": 224}, 176, (4, 4)),
    ],
)
def test_a_narrow_draft_has_a_proportional_number_of_heads(family, of, width, heads, tmp_path):
    folder = write_family(family, tmp_path / "target", layers=1, **{"encoder_layers": 1, **of})
    model = (seq2seq if "t5" in family else causal)(folder).model
    config = untrained(model, layers=1, width=width).config
    kv_heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    assert (config.num_attention_heads, kv_heads) == heads
    assert config.head_dim == 16
    type(config).from_dict(config.to_dict())  # refuses an invalid config


def test_the_targets_texts_start_with_its_familys_token(prompts, tmp_path, monkeypatch):
    """Old configs name no start token; the exported graphs then start with the padding token."""
    monkeypatch.setattr(target_module, "training_dtype", lambda _: torch.float32)
    without = {"decoder_start_token_id": None, "pad_token_id": 270}
    target = write_family("t5 v1.0", tmp_path / "target", **without)
    draft = tmp_path / "draft"
    plan = dataclasses.replace(PLAN, layers=2, width=None, vocabulary=200, steps=1, rate=1e-6)
    distill(str(target), prompts, draft, plan)
    export_pair(str(target), str(draft), tmp_path / "pair", threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    writer = target_module.open_target(resolve(str(target)), start_token=270)
    prompt = pair.tokenizer.encode("green stone").ids
    (text,) = generate_texts(writer, [prompt], greedily(12, [1]))
    drafted = pair.generate("green stone", gamma=3, draft="model", max_new_tokens=12)
    assert [*drafted.token_ids] == [token for token in text.output if token != 1]
    assert drafted.stats.accepted > 0


def test_a_drafts_config_has_no_entries_of_its_targets_gguf_file(llama_folder):
    target = causal(llama_folder).model
    target.config.quantization_config = {"quant_method": "gguf"}
    target.config._model_name_or_path = "a name in the file"
    noted = untrained(target, layers=1, width=None).config.to_dict()
    assert not {"quantization_config", "_model_name_or_path"} & noted.keys()
    assert target.config.quantization_config


def test_a_draft_of_the_targets_width_starts_with_evenly_spaced_layers(llama_folder):
    target = causal(llama_folder).model
    draft = untrained_draft(
        target,
        layers=2,
        encoder_layers=2,
        width=None,
        vocabulary=full_vocabulary(VOCABULARY),
        seed=0,
    )
    theirs, ours = target.state_dict(), draft.state_dict()
    for mine, origin in ((0, 0), (1, 2)):  # the first and the last
        name = "model.layers.{}.mlp.up_proj.weight"
        torch.testing.assert_close(ours[name.format(mine)], theirs[name.format(origin)])
    torch.testing.assert_close(
        ours["model.embed_tokens.weight"], theirs["model.embed_tokens.weight"]
    )


def test_a_draft_can_start_with_the_targets_last_layers(llama_folder):
    target = causal(llama_folder).model
    draft = untrained(target, layers=2, width=None, keep=last_layers)
    theirs, ours = target.state_dict(), draft.state_dict()
    for mine, origin in ((0, 1), (1, 2)):
        name = "model.layers.{}.mlp.up_proj.weight"
        torch.testing.assert_close(ours[name.format(mine)], theirs[name.format(origin)])


def test_in_bf16_rope_frequencies_stay_those_of_the_graphs(llama_folder):
    """Rounded to eight bits, an angle is wrong by a radian after some hundred positions."""
    target = causal(llama_folder).model.to(torch.bfloat16)
    draft = on_device_of(target, untrained(target, layers=1, width=None))
    assert {parameter.dtype for parameter in draft.parameters()} == {torch.bfloat16}
    exact = causal(llama_folder).model.model.rotary_emb.inv_freq
    torch.testing.assert_close(draft.model.rotary_emb.inv_freq, exact, atol=0, rtol=0)


def test_a_narrow_drafts_layers_start_by_adding_nothing(t5_folder):
    target = seq2seq(t5_folder).model
    draft = untrained_draft(
        target, layers=1, encoder_layers=2, width=32, vocabulary=full_vocabulary(VOCABULARY), seed=0
    )
    assert draft.config.d_model == 32
    assert draft.config.num_heads == 2
    assert (len(draft.encoder.block), len(draft.decoder.block)) == (2, 1)
    assert not any(
        weight.any() for name, weight in draft.named_parameters() if name.endswith(".wo.weight")
    )


def test_spread_examples_are_evenly_spaced():
    texts = list(range(100))
    assert run_module._spread_examples(texts, 3) == [0, 50, 99]
    assert run_module._spread_examples(texts, 60)[-1] == 99
    assert run_module._spread_examples(texts[:2], 60) == [0, 1]
    assert run_module._spread_examples([], 60) == []
