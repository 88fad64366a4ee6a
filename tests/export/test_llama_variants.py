"""Claim: SmolLM3, Granite and Hunyuan compute what transformers computes, within 1e-5.

The checkpoints are random; none of these models was run with its real weights.
"""

from __future__ import annotations

import pytest

import edgespec
from checkpoints import byte_tokenizer
from depth import deep, one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_export.quantization.formats import FORMATS

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
FAMILIES = {"SmolLM3": "smollm3", "Granite": "granite", "HunYuanDenseV1": "hunyuan"}
RAISED = {"rope_type": "dynamic", "rope_theta": 1e4, "alpha": 50.0, "factor": 1.0}
PUBLISHED = {**RAISED, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}
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
    "Hunyuan": ("HunYuanDenseV1", {}),
    "Hunyuan, a raised base": ("HunYuanDenseV1", {"rope_parameters": RAISED}),
    "Hunyuan, its published settings": ("HunYuanDenseV1", {"rope_parameters": PUBLISHED}),
    "Hunyuan, biases": ("HunYuanDenseV1", {"attention_bias": True, "head_dim": 24}),
}


def write(folder, name, **changes):
    torch.manual_seed(0)
    sizes = {"head_dim": 16} if name == "HunYuanDenseV1" else {}  # transformers finds no default
    config = getattr(transformers, f"{name}Config")(**{**SHAPE, **sizes, **changes})
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # norms of 1 and biases of 0 would hide mistakes
                parameter += 0.2 * torch.randn(parameter.shape)
    model.save_pretrained(folder)
    byte_tokenizer(272).save(str(folder / "tokenizer.json"))
    return folder


@one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case, tmp_path):
    from edgespec_export.verify import differences

    name, changes = CASES[case]
    source = write(tmp_path / "checkpoint", name, **changes)
    export_pair(str(source), None, tmp_path / "pair", target_formats=["fp32", "int8"])
    exported = read_manifest(tmp_path / "pair").target
    assert exported.family == FAMILIES[name]
    model = open_model(tmp_path / "pair", exported, "fp32", min_rows=2)
    assert differences(source, exported, model)["decoder"] <= 1e-5
    variant = exported.variants["int8"]
    assert variant.distance.kl < 0.02
    if name == "HunYuanDenseV1":  # no block operator has norms of queries and keys
        assert (variant.blocks["decoder"].fused, variant.blocks["decoder"].total) == (4, 8)
    elif "attention_bias" not in changes:  # as for a Llama: no block operator has biases
        assert (variant.blocks["decoder"].fused, variant.blocks["decoder"].total) == (8, 8)
    assert all(v.row_invariance.is_row_invariant for v in exported.variants.values())


@one_in(2)
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("SmolLM3", {}),
        ("Granite", MULTIPLIERS),
        ("HunYuanDenseV1", {"rope_parameters": RAISED}),
    ],
)
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
        ("SmolLM3", {"per_layer_config": {"0": 1}}, "per_layer_config = "),
        ("Granite", {"per_layer_config": {"0": 1}}, "per_layer_config = "),
        ("Granite", {"logits_scaling": 0}, "logits_scaling is 0"),
        ("HunYuanDenseV1", {"per_layer_config": {"0": 1}}, "per_layer_config = "),
        ("HunYuanDenseV1", {"use_cla": True}, "use_cla = True"),
        ("HunYuanDenseV1", {"use_qk_norm": False}, "use_qk_norm = False"),
        ("HunYuanDenseV1", {"rope_parameters": {**RAISED, "factor": 2.0}}, "factor"),
        ("HunYuanDenseV1", {"rope_parameters": {**RAISED, "rope_type": "yarn"}}, "alpha"),
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


@deep
def test_every_number_format_of_hunyuan_is_near_and_keeps_rows_apart(tmp_path):
    """Its norms stand where no other family has them."""
    source = write(tmp_path / "checkpoint", "HunYuanDenseV1", rope_parameters=RAISED)
    export_pair(
        str(source),
        None,
        tmp_path / "pair",
        target_formats=list(FORMATS),
        cache_formats=["fp32", "int8"],
        threads=1,
    )
    for variant_name, variant in read_manifest(tmp_path / "pair").target.variants.items():
        limit = 0.2 if variant_name.startswith("int4") else 0.02
        assert variant.row_invariance.is_row_invariant, variant_name
        assert variant.distance is None or variant.distance.kl < limit, variant_name


def test_norms_before_the_rotation_are_another_model(tmp_path, monkeypatch):
    """The mistake that Hunyuan invites: Qwen3 and others normalise first."""
    from edgespec_export.components.attention.heads import HeadNorms
    from edgespec_export.components.blocks.self_attention import NormedAfterRotation, SelfAttention
    from edgespec_export.verify import differences

    def normed_first(self, g, inputs, call):
        norms = HeadNorms(self.q_norm.weight, self.k_norm.weight, self.q_norm.epsilon)
        return SelfAttention(self.layer, self.heads, norms).emit(g, inputs, call)

    monkeypatch.setattr(NormedAfterRotation, "emit", normed_first)
    source = write(tmp_path / "checkpoint", "HunYuanDenseV1")
    exported = export_pair(str(source), None, tmp_path / "pair", measure=False).target
    model = open_model(tmp_path / "pair", exported, "fp32", min_rows=2)
    assert differences(source, exported, model)["decoder"] > 1e-3
