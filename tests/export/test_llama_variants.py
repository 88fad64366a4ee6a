"""Claim: SmolLM3 and Granite compute what transformers computes, within 1e-5, with a Llama's graph.

The checkpoints are random; none of these models was run with its real weights.
"""

from __future__ import annotations

import pytest

import edgespec
from checkpoints import byte_tokenizer
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SHAPE = {
    "vocab_size": 272,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.1,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
MULTIPLIERS = {
    "embedding_multiplier": 12.0,
    "residual_multiplier": 0.22,
    "attention_multiplier": 0.0834,
    "logits_scaling": 8.0,
}
CASES = {
    "SmolLM3, every fourth layer without rotary positions": ("SmolLM3", {}),
    "SmolLM3, every second": ("SmolLM3", {"no_rope_layer_interval": 2}),
    "SmolLM3, as listed": ("SmolLM3", {"no_rope_layers": [0, 1, 1, 0]}),
    "SmolLM3, all rotary": ("SmolLM3", {"no_rope_layers": [1] * 4, "tie_word_embeddings": False}),
    "SmolLM3, biases": ("SmolLM3", {"attention_bias": True, "mlp_bias": True}),
    "Granite, tied head": ("Granite", {**MULTIPLIERS, "tie_word_embeddings": True}),
    "Granite, own head": ("Granite", MULTIPLIERS),
    "Granite, biases": ("Granite", {**MULTIPLIERS, "attention_bias": True, "mlp_bias": True}),
    "Granite without multipliers": ("Granite", {}),
}


def write(folder, name, **changes):
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SHAPE, **changes})
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # norms of 1 and biases of 0 would hide mistakes
                parameter += 0.2 * torch.randn(parameter.shape)
    model.save_pretrained(folder)
    byte_tokenizer(272).save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case, tmp_path):
    from edgespec_export.verify import differences

    name, changes = CASES[case]
    source = write(tmp_path / "checkpoint", name, **changes)
    export_pair(str(source), None, tmp_path / "pair", target_formats=["fp32", "int8"])
    exported = read_manifest(tmp_path / "pair").target
    assert exported.family == name.lower()
    model = open_model(tmp_path / "pair", exported, "fp32", min_rows=2)
    assert differences(source, exported, model)["decoder"] <= 1e-5
    variant = exported.variants["int8"]
    assert variant.distance.kl < 0.02
    if "attention_bias" not in changes:  # as for a Llama: no block operator has biases
        assert (variant.blocks["decoder"].fused, variant.blocks["decoder"].total) == (8, 8)
    assert all(v.row_invariance.is_row_invariant for v in exported.variants.values())


@pytest.mark.parametrize(("name", "changes"), [("SmolLM3", {}), ("Granite", MULTIPLIERS)])
def test_a_pair_has_the_targets_own_text(name, changes, tmp_path):
    target = write(tmp_path / "target", name, **changes)
    draft = write(tmp_path / "draft", name, **{**changes, "num_hidden_layers": 1})
    export_pair(str(target), str(draft), tmp_path / "pair", target_formats=["fp32", "int8"])
    for format_ in ("fp32", "int8"):
        pair = edgespec.load(tmp_path / "pair", target_format=format_, threads=1)
        for options in ({"temperature": 0}, {"temperature": 1, "seed": 5}):
            plain, drafted = (
                pair.generate("ab", max_new_tokens=40, draft=draft, gamma=gamma, **options)
                for draft, gamma in ((False, 0), ("model", 3))
            )
            assert plain.token_ids == drafted.token_ids
            assert drafted.stats.drafted > 0


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("SmolLM3", {"no_rope_layers": [1, 0]}, "no_rope_layers does not say"),
        ("SmolLM3", {"no_rope_layers": [1, 0, 2, 1]}, "no_rope_layers does not say"),
        ("SmolLM3", {"surprise": 1}, "surprise = 1"),
        ("SmolLM3", {"use_sliding_window": True, "sliding_window": 32}, "sliding_window = 32"),
        ("Granite", {"surprise": 1}, "surprise = 1"),
        ("Granite", {"logits_scaling": 0}, "logits_scaling is 0"),
        ("Granite", {"residual_multiplier": "a"}, "residual_multiplier is 'a'"),
    ],
)
def test_a_config_that_is_not_understood_is_refused(name, change, words):
    config = getattr(transformers, f"{name}Config")(**SHAPE).to_dict() | change
    with pytest.raises(EdgespecError, match=words) as error:
        family_of(config, "model")
    assert "\n" not in str(error.value)


def test_distillation_refuses_what_it_would_compute_otherwise():
    from edgespec_distill.plan import Plan, plan_for

    family = family_of(transformers.SmolLM3Config(**SHAPE).to_dict(), "model")
    with pytest.raises(UsageError, match="'smollm3'"):
        plan_for(Plan(layers=1, steps=1), family)
