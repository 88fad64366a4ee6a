"""Claim: a Phi-3 computes what transformers computes, within 1e-5, whatever part is rotated."""

from __future__ import annotations

import numpy as np
import pytest

from checkpoints import byte_tokenizer
from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CASES = {
    "all of a head is rotated": {},
    "half of a head is rotated": {"partial_rotary_factor": 0.5},
    "grouped heads": {"partial_rotary_factor": 0.75, "num_key_value_heads": 1},
    "tied head": {"tie_word_embeddings": True},
}


def write_phi3(folder, *, partial_rotary_factor=1.0, **changes):
    torch.manual_seed(0)
    rope = changes.pop("rope_parameters", None) or {
        "rope_type": "default",
        "rope_theta": 1e4,
        "partial_rotary_factor": partial_rotary_factor,
    }
    settings = {
        "vocab_size": 272,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "rope_parameters": rope,
        "initializer_range": 0.1,
        "bos_token_id": 1,
        "eos_token_id": 1,
        "pad_token_id": 0,
    }
    config = transformers.Phi3Config(**{**settings, **changes})
    transformers.Phi3ForCausalLM(config).save_pretrained(folder)
    byte_tokenizer(272).save(str(folder / "tokenizer.json"))
    return folder


@one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case, tmp_path):
    from edgespec_export.verify import differences

    source = write_phi3(tmp_path / "checkpoint", **CASES[case])
    export_pair(str(source), None, tmp_path / "pair", target_formats=["fp32", "int8"])
    exported = read_manifest(tmp_path / "pair").target
    model = open_model(tmp_path / "pair", exported, "fp32", min_rows=2)
    assert differences(source, exported, model)["decoder"] <= 1e-5
    variant = exported.variants["int8"]
    assert variant.distance.kl < 0.02
    assert (variant.blocks["decoder"].fused, variant.blocks["decoder"].total) == (6, 6)
    assert all(v.row_invariance.is_row_invariant for v in exported.variants.values())


def test_all_positions_are_there_beyond_the_window(tmp_path):
    source = write_phi3(tmp_path / "checkpoint", sliding_window=40)
    exported = export_pair(str(source), None, tmp_path / "pair", measure=False).target
    assert exported.positions == exported.capacity == 128


def longrope(count, **changes):
    """The LongRoPE settings of a config whose heads have `count` rotated pairs."""
    short = [1.0 + 0.1 * pair for pair in range(count)]
    long = [2.0 + pair for pair in range(count)]
    settings = {"rope_type": "longrope", "short_factor": short, "long_factor": long}
    return {**settings, "rope_theta": 1e4, **changes}


@one_in(2)
@pytest.mark.parametrize(
    ("count", "changes"),
    [
        (8, {}),
        (6, {"partial_rotary_factor": 0.75}),
        (8, {"attention_factor": 1.3}),
        (8, {"factor": 4.0}),
    ],
    ids=str,
)
def test_longrope_computes_what_transformers_computes_up_to_the_original_length(
    count, changes, tmp_path
):
    from edgespec_export.verify import differences

    source = write_phi3(
        tmp_path / "checkpoint",
        rope_parameters=longrope(count, **changes),
        original_max_position_embeddings=64,
    )
    export_pair(str(source), None, tmp_path / "pair")
    exported = read_manifest(tmp_path / "pair").target
    assert exported.positions == 64
    model = open_model(tmp_path / "pair", exported, "fp32", min_rows=2)
    assert differences(source, exported, model)["decoder"] <= 1e-5


def test_an_older_config_asks_for_the_same_positions():
    newer = transformers.Phi3Config(
        rope_parameters=longrope(48, partial_rotary_factor=1.0), max_position_embeddings=131072
    ).to_dict()
    older = {name: value for name, value in newer.items() if name != "rope_parameters"}
    scaling = longrope(48)
    theta = scaling.pop("rope_theta")
    del scaling["rope_type"]
    older |= {"rope_scaling": {**scaling, "type": "su"}, "rope_theta": theta}
    ours, theirs = family_of(newer, "model"), family_of(older, "model")
    assert (ours.rotary.frequencies == theirs.rotary.frequencies).all()
    assert (ours.rotary.amplitudes == theirs.rotary.amplitudes).all()
    assert ours.positions == theirs.positions == 4096
    assert ours.rotary.amplitudes[0] == pytest.approx((1 + 5 / 12) ** 0.5)


@pytest.mark.parametrize(
    "broken",
    [{"short_factor": None}, {"short_factor": [1.0]}, {"short_factor": ["a"] * 48}],
    ids=str,
)
def test_longrope_settings_that_do_not_fit_are_refused(broken):
    config = transformers.Phi3Config().to_dict()
    with pytest.raises(EdgespecError, match="of the wrong kind"):
        family_of({**config, "rope_parameters": longrope(48, **broken)}, "model")


def test_other_scalings_are_refused_by_name():
    config = {**transformers.Phi3Config().to_dict(), "rope_parameters": {"rope_type": "ntk"}}
    with pytest.raises(EdgespecError, match="rope scaling 'ntk'"):
        family_of(config, "model")


LONG_TEXT = list(range(4, 104))  # beyond the original length of 64


@pytest.mark.parametrize("changes", [{}, {"attention_factor": 1.3}], ids=str)
def test_a_long_text_has_the_logits_of_transformers_whole_and_in_pieces(changes, tmp_path):
    source = write_phi3(
        tmp_path / "checkpoint",
        rope_parameters=longrope(8, **changes),
        original_max_position_embeddings=64,
    )
    export_pair(str(source), None, tmp_path / "pair", long_texts=True)
    exported = read_manifest(tmp_path / "pair").target
    assert exported.positions == 128
    original = transformers.AutoModelForCausalLM.from_pretrained(source)
    with torch.no_grad():
        expected = original(torch.tensor([LONG_TEXT])).logits[0].numpy()
    model = open_model(tmp_path / "pair", exported, "fp32", min_rows=2)
    for prompt in (1, 50, 64, 90):
        pending = model.prefill(LONG_TEXT[:prompt])
        logits = model.score([pending, *LONG_TEXT[prompt:]])
        np.testing.assert_allclose(logits, expected[prompt - 1 :], atol=1e-4)


def test_long_texts_are_for_models_with_longrope(tmp_path):
    source = write_phi3(tmp_path / "checkpoint")
    with pytest.raises(UsageError, match="--long-texts is for models with longrope, and"):
        export_pair(str(source), None, tmp_path / "pair", long_texts=True)
    with pytest.raises(UsageError, match="--verify compares short texts"):
        export_pair(str(source), None, tmp_path / "pair", long_texts=True, verify=True)
    assert not (tmp_path / "pair").exists()
