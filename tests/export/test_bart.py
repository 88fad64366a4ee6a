"""Claim: BART and its relatives compute what transformers computes, within 1e-5; other formats stay
near, and a text with a draft is the target's own.

The checkpoints are random; none of these models was run with its real weights. Heads of 16 take the
fused attention operators, heads of 10 the standard ones.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import edgespec
from bart_checkpoints import CLASSES, SIZES, write_bart
from checkpoints import add_tensor, write_noisy
from depth import DEEP, deep, one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.components.norms.norm import NoNorm
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_export.families.bart.bart import Bart
from edgespec_export.families.bart.completed_weights import LOGIT_BIAS, CompletedWeights
from edgespec_export.families.bart.marian import sinusoids
from edgespec_export.families.bart.mbart import MBart
from edgespec_export.families.bart.pegasus import Pegasus
from edgespec_export.families.bart.token_masks import TokenMasks
from edgespec_export.quantization.formats import FORMATS
from family_corpus import PEGASUS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CASES = {
    "fused attention": {},
    "standard attention": {"d_model": 30},
    "more layers in the encoder": {"encoder_layers": 3, "decoder_layers": 1},
    "scaled embeddings, swish": {"scale_embedding": True, "activation_function": "swish"},
    "relu": {"activation_function": "relu"},
    "a forced first token": {"forced_bos_token_id": 7},
    "a forced first token and banned tokens": {
        "forced_bos_token_id": 7,
        "bad_words_ids": [[0], [7]],
    },
}


# Pegasus and M2M100 have the blocks of an mBART; their own cases are in test_nllb_and_pegasus.py.
LOGITS = [
    (family, case)
    for family in CLASSES
    for case in CASES
    if family not in ("pegasus", "m2m100") or case in ("fused attention", "standard attention")
]


def difference(source, out):
    """From transformers, in float32, of any graph."""
    from edgespec_export.verify import differences

    export_pair(str(source), None, out, measure=False)
    exported = read_manifest(out).target
    model = open_model(out, exported, "fp32", min_rows=2)
    return max(differences(source, exported, model).values())


@one_in(3)
@pytest.mark.parametrize(("family", "case"), LOGITS)
def test_logits_are_those_of_transformers(family, case, tmp_path):
    source = write_bart(tmp_path / "checkpoint", family, **CASES[case])
    assert difference(source, tmp_path / "pair") <= 1e-5
    assert read_manifest(tmp_path / "pair").target.family == family


@one_in(2)
@pytest.mark.parametrize("family", CLASSES)
def test_a_head_that_differs_from_the_embedding_is_the_head(family, tmp_path):
    source = write_bart(tmp_path / "checkpoint", family)
    add_tensor(source, "lm_head.weight", "model.shared.weight", noise=0.5)
    assert difference(source, tmp_path / "pair") <= 1e-5


def test_names_without_a_prefix_and_a_missing_bias_mean_the_same(tmp_path):
    """Checkpoints of a model without a head have neither."""
    source = write_bart(tmp_path / "checkpoint", "bart")
    path = source / "model.safetensors"
    plain = {
        name.removeprefix("model."): tensor
        for name, tensor in load_file(path).items()
        if name != "final_logits_bias"
    }
    save_file(plain, path, {"format": "pt"})
    assert difference(source, tmp_path / "pair") <= 1e-5


@pytest.mark.parametrize("family", ["marian", "pegasus"])
def test_stored_positions_are_used_where_there_are_any(family, tmp_path):
    source = write_bart(tmp_path / "checkpoint", family)
    path = source / "model.safetensors"
    tables = {
        f"model.{stack}.embed_positions.weight": 2 * sinusoids(128, 48)
        for stack in ("encoder", "decoder")
    }
    save_file({**load_file(path), **tables}, path, {"format": "pt"})
    assert difference(source, tmp_path / "pair") <= 1e-5


@pytest.mark.parametrize("width", [30, 33])
def test_the_sines_of_positions_are_those_of_transformers(width):
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    expected = MarianSinusoidalPositionalEmbedding(50, width).create_weight().numpy()
    assert np.array_equal(sinusoids(50, width), expected)


MISTAKES = {
    "no norm of the sums": ("bart", lambda patch: patch.setattr(Bart, "after", _no_norm)),
    "norms before the blocks": ("bart", lambda patch: _swap(patch, Bart)),
    "norms of the sums": ("mbart", lambda patch: _swap(patch, MBart)),
    "no norm after the stacks": (
        "mbart",
        lambda patch: patch.setattr(MBart, "stack_norm", _no_norm),
    ),
    "no norm of the embeddings": (
        "bart",
        lambda patch: patch.setattr(Bart, "embedding_norm", _no_norm),
    ),
    "positions from the first row": (
        "bart",
        lambda patch: patch.setattr(Bart, "position_offset", 1),
    ),
    "embeddings of a Pegasus with a norm": (
        "pegasus",
        lambda patch: patch.setattr(Pegasus, "embedding_norm", _stack_norm),
    ),
    "norms of the sums of a Pegasus": ("pegasus", lambda patch: _swap(patch, Pegasus)),
    "no bias of the logits": (
        "marian",
        lambda patch: patch.setattr(CompletedWeights, "read", _without_bias),
    ),
}


_read = CompletedWeights.read


def _without_bias(self, name):
    tensor = _read(self, name)
    return 0 * tensor if name == LOGIT_BIAS else tensor


def _stack_norm(self, stack):
    return self.stack_norm(stack)


def _no_norm(self, norm):
    return NoNorm()


def _swap(patch, family):
    before, after = family.before, family.after
    patch.setattr(family, "before", after)
    patch.setattr(family, "after", before)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_with_norms_or_positions_changes_the_logits(mistake, tmp_path, monkeypatch):
    family, make = MISTAKES[mistake]
    source = write_bart(tmp_path / "checkpoint", family)
    make(monkeypatch)
    monkeypatch.setattr(Bart, "shapes", lambda self: iter(()))
    monkeypatch.setattr("edgespec_export.write_graphs.check_all_read", lambda file, family: None)
    assert difference(source, tmp_path / "pair") > 1e-2


def test_positions_end_where_the_table_ends(tmp_path):
    """Of the source and of the text."""
    source = write_bart(tmp_path / "checkpoint", "bart", max_position_embeddings=40)
    exported = export_pair(str(source), None, tmp_path / "pair", measure=False).target
    model = open_model(tmp_path / "pair", exported, "fp32", min_rows=2, device=Device(1))
    pending = model.prefill([4] * 40)
    assert np.isfinite(model.score([pending, *[5] * 38])).all()
    assert np.isfinite(model.score([5])).all()
    with pytest.raises(EdgespecError, match="the prompt has 41 tokens and the cache holds 40"):
        model.prefill([4] * 41)


# --- number formats and drafts --------------------------------------------------------------------


ALWAYS = ("bart",)


SOME_FORMATS = ["fp32", "int8", "int4"]


@pytest.fixture(
    scope="module",
    params=[name if name in ALWAYS else pytest.param(name, marks=deep) for name in CLASSES],
)
def folder(request, made_once):
    """A pair whose draft is sometimes right, in every format, by default in the usual ones; its
    first token is forced."""

    def make(folder):
        masks = {"forced_bos_token_id": 9, "bad_words_ids": [[0]]}
        sizes = {"d_model": 64, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96}
        heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
        target = write_bart(folder / "target", request.param, **sizes, **heads, **masks)
        draft = write_noisy(target, folder / "draft", noise=0.1)
        export_pair(
            str(target),
            str(draft),
            folder / "pair",
            target_formats=list(FORMATS) if DEEP else SOME_FORMATS,
            cache_formats=["fp32", "int8"],
            threads=1,
        )

    return made_once(f"formats-{request.param}", make) / "pair"


def test_number_formats_stay_near_the_model_and_keep_rows_apart(folder):
    for name, variant in read_manifest(folder).target.variants.items():
        assert variant.row_invariance.is_row_invariant, name
        limit = 0.2 if name.startswith("int4") else 0.02
        assert variant.distance is None or variant.distance.kl < limit, name
        if variant.blocks:  # a layer norm is no part of a fused block
            assert all(blocks.fused == 0 for blocks in variant.blocks.values())


@one_in(2)
@pytest.mark.parametrize("format_", ["fp32", "int8", "int4", "int8-cache-int8"])
def test_a_text_with_a_draft_is_the_targets_own(folder, format_):
    pair = edgespec.load(folder, threads=1, target_format=format_)
    accepted = evaluated = 0
    for options in ({}, {"temperature": 1.0, "seed": 3}):
        for prompt in ("ab", "a longer source", "ß"):
            plain = pair.generate(prompt, draft=False, max_new_tokens=24, **options)
            for gamma in (1, 4, 8):
                drafted = pair.generate(prompt, gamma=gamma, max_new_tokens=24, **options)
                assert drafted.token_ids == plain.token_ids
                accepted += drafted.stats.accepted
                evaluated += drafted.stats.evaluated
            assert plain.token_ids[0] == 9
            assert 0 not in plain.token_ids
    assert 0 < accepted < evaluated


# --- forced and banned tokens ---------------------------------------------------------------------


@one_in(2)
@pytest.mark.parametrize("family", CLASSES)
def test_greedy_text_is_what_transformers_generates(family, tmp_path, monkeypatch):
    """The start token alone would give another text: a second export without masks shows it."""
    masks = {"forced_bos_token_id": 260, "bad_words_ids": [[0], [88], [61]]}
    source = write_bart(tmp_path / "checkpoint", family, **masks)
    original = getattr(transformers, CLASSES[family][1]).from_pretrained(source).eval()
    texts = {}
    for name in ("with masks", "without"):
        if name == "without":
            monkeypatch.setattr(TokenMasks, "emit", lambda self, g, logits, positions: logits)
        export_pair(str(source), None, tmp_path / name, measure=False, threads=1)
        pair = edgespec.load(tmp_path / name, threads=1)
        prompts = [[5, 9, 30, 8], [44, 1], [100, 101, 102, 1]]
        texts[name] = [pair.generate(p, max_new_tokens=20).token_ids for p in prompts]
    expected = [
        original.generate(torch.tensor([p]), max_new_tokens=20, do_sample=False)[0, 1:].tolist()
        for p in prompts
    ]
    assert texts["with masks"] == expected
    assert texts["without"] != expected


def test_masks_in_an_old_config_hold_where_there_is_no_generation_config(tmp_path):
    source = write_bart(tmp_path / "checkpoint", "bart")
    config = json.loads((source / "config.json").read_text())
    masks = {"forced_bos_token_id": 7, "bad_words_ids": [[5]]}
    shape = family_of({**config, **masks}, "model")
    assert (shape.masks.first, shape.masks.banned) == (7, (5,))
    assert shape.with_generation_settings({}).masks == shape.masks
    free = shape.with_generation_settings({"decoder_start_token_id": 0}).masks
    assert (free.first, free.banned) == (None, ())


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "settings", "named"),
    [
        ("bart", {"per_layer_config": {"0": 1}}, "per_layer_config = "),
        ("bart", {"normalize_before": True}, "normalize_before = True"),
        ("bart", {"static_position_embeddings": True}, "static_position_embeddings = True"),
        ("mbart", {"normalize_before": False}, "normalize_before = False"),
        ("marian", {"normalize_embedding": True}, "normalize_embedding = True"),
        ("marian", {"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embed"),
        ("marian", {"decoder_vocab_size": 300}, "decoder_vocab_size = 300"),
        ("bart", {"encoder_attention_heads": 4}, "encoder_attention_heads = 4"),
        ("bart", {"decoder_attention_heads": 5}, "d_model is 48, with 5 heads"),
        ("bart", {"activation_function": "tanh"}, "activation_function = 'tanh'"),
        ("bart", {"is_decoder": True}, "is_decoder = True"),
        ("mbart", {"decoder_start_token_id": None}, "no 'decoder_start_token_id'"),
        ("bart", {"decoder_start_token_id": 272}, "decoder_start_token_id is 272"),
        ("bart", {"forced_bos_token_id": 272}, "forced_bos_token_id has 272, not one of 272"),
        ("marian", {"bad_words_ids": [[5, 6]]}, "bans single tokens only"),
        ("marian", {"bad_words_ids": [5]}, "bans single tokens only"),
    ],
)
def test_a_config_that_is_not_understood_is_refused_by_name(family, settings, named):
    with pytest.raises(EdgespecError, match=named) as error:
        family_of({"model_type": family, **SIZES, **settings}, "model")
    assert "\n" not in str(error.value)


# What old versions of transformers wrote into the configs of published models.
OLD = {
    "classif_dropout": 0.1,
    "do_blenderbot_90_layernorm": False,
    "force_bos_token_to_be_generated": False,
    "gradient_checkpointing": False,
    "output_past": True,
    "use_cache": True,
}


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("bart", {"extra_pos_embeddings": 2, "normalize_embedding": True, "prefix": " "}),
        ("mbart", {"normalize_before": True, "add_final_layer_norm": True, "num_beams": 4}),
        ("marian", {"extra_pos_embeddings": 272, "static_position_embeddings": True}),
        ("pegasus", {**PEGASUS, "length_penalty": 0.6, "num_beams": 8}),
    ],
)
def test_configs_of_published_models_are_understood(family, settings):
    legacy = {"add_bias_logits": False, "static_position_embeddings": False, "_num_labels": 3}
    config = {"model_type": family, **SIZES, **OLD, **legacy, **settings}
    assert family_of(config, "model").family == family


def test_other_rows_of_positions_are_refused():
    config = {"model_type": "bart", **SIZES, "extra_pos_embeddings": 3}
    with pytest.raises(EdgespecError, match="extra_pos_embeddings = 3; edgespec exports only 2"):
        family_of(config, "model")


def test_two_embeddings_are_refused_by_name(tmp_path):
    source = write_bart(tmp_path / "checkpoint", "bart")
    path = source / "model.safetensors"
    tensors = load_file(path)
    copy = {"model.encoder.embed_tokens.weight": tensors["model.shared.weight"] + 1}
    save_file({**tensors, **copy}, path, {"format": "pt"})
    with pytest.raises(EdgespecError, match=r"encoder\.embed_tokens\.weight' differs from"):
        export_pair(str(source), None, tmp_path / "pair")


def test_a_table_of_other_positions_is_refused(tmp_path):
    source = write_bart(tmp_path / "checkpoint", "bart")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
    with pytest.raises(EdgespecError, match=r"embed_positions.weight' is \[130, 48\]"):
        export_pair(str(source), None, tmp_path / "pair")


def test_a_file_that_is_no_mbarts_pieces_is_refused(tmp_path):
    source = write_bart(tmp_path / "checkpoint", "mbart")
    (source / "tokenizer.json").unlink()
    (source / "sentencepiece.bpe.model").write_bytes(b"")
    with pytest.raises(EdgespecError, match=r"bpe\.model: begins with .*tokenizer\.json"):
        export_pair(str(source), None, tmp_path / "pair")
