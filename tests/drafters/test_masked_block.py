"""Claim: drafts that fill a block of masks compute what the package "speculators" computes.

DFlash, DFlash-2 and DSpark. The numbers are the package's own (0.9.0), recorded by
scripts/record_speculators.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import edgespec
from depth import deep
from eagle3_checkpoints import write_deep_target
from edgespec.core.distribution_options import Sampling
from edgespec.core.draft import proposed
from edgespec.core.randomness import Seeded
from edgespec.core.requests import computed
from edgespec.core.sampling import SamplingProcessor
from edgespec.device.device import HERE
from edgespec.device.kernels import kernels_for
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.errors import EdgespecError
from edgespec_export.export_pair import export_pair
from speculators_checkpoints import BLOCK_CONFIGS, QWEN3, block_tensors, write_draft

RECORDED = json.loads((Path(__file__).parent / "speculators-0.9.0.json").read_text())
TEXT, DRAFTED = RECORDED["text"], RECORDED["drafted"]
NEVER = -1e29
NAMES = list(BLOCK_CONFIGS)
OFTEN = ("dspark",)  # the others run with EDGESPEC_DEEP=1
NEAR = {
    "int8": 0.1,
    "fp16": 0.02,
    "bf16-products": 0.05,
    "int4": 0.6,
    "int4-int8": 0.6,
    "int8-groups": 0.2,
    "int4-weights": 0.7,
}


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    return write_deep_target(tmp_path_factory.mktemp("target") / "llama")


@pytest.fixture(
    scope="module",
    params=[n if n in OFTEN else pytest.param(n, marks=deep) for n in NAMES],
)
def case(request, target, tmp_path_factory) -> tuple[str, Path]:
    """The name of a draft, and the folder of its pair."""
    folder = tmp_path_factory.mktemp(request.param)
    draft = write_draft(folder / "draft", BLOCK_CONFIGS[request.param], block_tensors)
    options = {"draft_formats": ("fp32", "int8"), "measure": False}
    export_pair(str(target), str(draft), folder / "pair", **options)
    return request.param, folder / "pair"


def test_a_draft_of_blocks_is_refused_for_a_gpu(case, target, tmp_path):
    draft = case[1].parent / "draft"
    words = r"hidden states \(a draft of blocks\), which .* for a GPU yet; leave --for gpu out"
    with pytest.raises(EdgespecError, match=words):
        export_pair(str(target), str(draft), tmp_path / "pair", host="gpu")
    assert not (tmp_path / "pair").exists()


@deep
def test_a_draft_of_blocks_stays_on_the_processor_beside_a_target_for_an_npu(
    case, target, tmp_path
):
    draft = case[1].parent / "draft"
    manifest = export_pair(str(target), str(draft), tmp_path / "pair", host="npu", threads=1)
    assert next(iter(manifest.target.variants.values())).static is not None
    assert next(iter(manifest.draft.variants.values())).static is None
    pair = edgespec.load(tmp_path / "pair", threads=1)
    wanted, found = (pair.generate(TEXT, max_new_tokens=12, draft=d) for d in (False, "model"))
    assert found.stats.drafted > 0
    assert found.token_ids == wanted.token_ids


def block_of(pair: edgespec.Pair, text: list[int], drafted: list[int]):
    """Logits after a text and after each drafted token, and the confidences before the latter."""
    assert pair.draft is not None
    pair.target.prefill(text)
    pair.draft.prefill(text)
    logits, confidences = [pair.draft.score([text[-1]])[-1].copy()], []
    for token in drafted:
        confidences.append(pair.draft.confidence_after(token))
        logits.append(pair.draft.score([token])[-1].copy())
    return np.array(logits), confidences


def check_block(pair: edgespec.Pair, name: str, share: float) -> None:
    """Whether a block is the package's but for a share of its spread, in the mean."""
    expected = np.array(RECORDED["block"][name]["logits"], float)  # NaN: never proposed
    assert pair.draft.block == len(expected)
    logits, confidences = block_of(pair, TEXT, DRAFTED[: len(expected) - 1])
    both = ~np.isnan(expected) & (logits > NEVER)
    assert both.sum() >= 0.3 * (~np.isnan(expected)).sum()  # rounding chooses other best tokens
    assert expected[both].std() > 1
    assert np.abs(logits - expected)[both].mean() < share * expected[both].std()
    of_package = RECORDED["block"][name]["confidences"] or [1.0] * len(expected)
    np.testing.assert_allclose(confidences, of_package[1:], atol=share)


def test_blocks_are_the_packages(case):
    name, folder = case
    pair = edgespec.load(folder, threads=1, draft_format="fp32")
    check_block(pair, name, 1e-5)
    logits = block_of(pair, TEXT, [])[0]
    proposed_ids = ~np.isnan(np.array(RECORDED["block"][name]["logits"], float)[0])
    np.testing.assert_array_equal(logits[0] > NEVER, proposed_ids)
    assert pair.draft.valid_length == len(TEXT) - 1 < pair.draft.length


def test_texts_are_the_targets(case):
    pair = edgespec.load(case[1], threads=1, draft_format="int8")
    for options in ({}, {"temperature": 3.0, "seed": 4}):
        plain = pair.generate(TEXT, max_new_tokens=12, draft=False, **options)
        for gamma in (3, "auto"):
            drafted = pair.generate(TEXT, max_new_tokens=12, draft="model", gamma=gamma, **options)
            assert drafted.token_ids == plain.token_ids
            assert drafted.stats.drafted > 0 or gamma == "auto"


def test_each_round_reads_what_the_target_found_since(case):
    """Each q is that of a pair that starts with the text so far: nothing of a block stays."""
    folder = case[1]
    pair, fresh = (edgespec.load(folder, threads=1, draft_format="fp32") for _ in range(2))
    process = SamplingProcessor(Sampling(1.0))
    drafter = ModelDrafter(pair.draft, process, pair.vocabulary)
    text = [pair.target.prefill(TEXT)]
    drafter.begin(TEXT)
    for seed in range(3):
        proposal = computed(proposed(drafter, text, 3, Seeded(seed)))
        assert len(proposal.tokens) == 3
        ids = pair.vocabulary.to_draft_ids(proposal.tokens[:2])
        logits, _ = block_of(fresh, [*TEXT[:-1], *text], ids)
        for q, row in zip(proposal.q, logits, strict=True):
            np.testing.assert_allclose(q.probabilities, process(row).probabilities, atol=1e-4)
        pair.target.score([text[-1], *proposal.tokens[:1]])
        text += [proposal.tokens[0], 90 + seed]


@deep
def test_a_full_cache_leaves_no_room_ahead(case):
    pair = edgespec.load(case[1], threads=1, capacity=len(TEXT) + 9)
    plain = pair.generate(TEXT, draft=False, ignore_eos=True)
    drafted = pair.generate(TEXT, draft="model", gamma=4, ignore_eos=True)
    assert drafted.finish_reason == "capacity"
    assert drafted.token_ids == plain.token_ids


@deep
def test_a_long_prompt_is_read_in_parts(case, monkeypatch):
    folder = case[1]
    pair = edgespec.load(folder, threads=1, draft_format="fp32")
    whole, _ = block_of(pair, TEXT, [])
    monkeypatch.setattr("edgespec_runtimes.ort.reading.ort_masked_block.MOST_KNOWN_ROWS", 4)
    parts, _ = block_of(edgespec.load(folder, threads=1, draft_format="fp32"), TEXT, [])
    np.testing.assert_allclose(parts, whole, rtol=1e-4, atol=1e-4)


@deep
@pytest.mark.parametrize("name", NAMES)
def test_several_texts_at_once_are_those_alone(target, tmp_path, name):
    """They share the target's calls, and each has a draft with a cache of its own."""
    if kernels_for(HERE) is None:
        pytest.skip("texts share calls only with kernels")
    draft = write_draft(tmp_path / "draft", BLOCK_CONFIGS[name], block_tensors)
    formats = {"target_formats": ("int8",), "draft_formats": ("int8",)}
    export_pair(str(target), str(draft), tmp_path / "pair", **formats)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    assert pair.shares_calls
    prompts = [[40 + number, *(TEXT * 4)[: 3 + 9 * number]] for number in range(4)]
    options = {"max_new_tokens": 16, "draft": "model", "gamma": 3, "temperature": 3.0}
    alone = [pair.generate(prompt, seed=5 + i, **options) for i, prompt in enumerate(prompts)]
    together = list(pair.generate_many(prompts, seed=5, **options))
    assert all(text.stats.drafted for text in together)
    assert [text.token_ids for text in together] == [text.token_ids for text in alone]
    assert [text.stats.accepted for text in together] == [text.stats.accepted for text in alone]
    assert sum(text.stats.accepted for text in alone) > 0


@deep
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", NEAR)
def test_every_format_is_near(target, tmp_path, name, form):
    draft = write_draft(tmp_path / "draft", BLOCK_CONFIGS[name], block_tensors)
    export_pair(str(target), str(draft), tmp_path / "pair", measure=False, draft_formats=(form,))
    check_block(edgespec.load(tmp_path / "pair", threads=1), name, NEAR[form])


LAYERS = "transformer_layer_config"


@deep
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("dflash", {"sample_from_anchor": True}),
        ("dflash", {"mask_token_id": 8}),
        ("dflash", {"aux_hidden_state_layer_ids": [2, 4, 6]}),
        ("dflash_windowed", {"sliding_window_non_causal": True}),
        ("dflash_windowed", {LAYERS: {"sliding_window": 3}}),
        ("dflash_windowed", {LAYERS: {"layer_types": ["full_attention", "sliding_attention"]}}),
        ("dspark", {LAYERS: {"rope_parameters": {"rope_theta": 6000.0, "rope_type": "default"}}}),
        ("dspark_gated", {"sample_from_anchor": True}),
        ("dspark_gated", {LAYERS: {"rope_parameters": {"rope_theta": 5000.0}}}),
        ("dflash2", {"conv_group_size": 8, "selector_top_k": 5}),
    ],
)
def test_a_config_that_is_read_otherwise_is_seen(target, tmp_path, name, changes):
    """Mutants: each setting that a graph could forget changes the numbers."""
    config = {**BLOCK_CONFIGS[name], **changes}
    if LAYERS in changes:
        config[LAYERS] = {**BLOCK_CONFIGS[name][LAYERS], **changes[LAYERS]}
    draft = write_draft(tmp_path / "draft", config, block_tensors)
    export_pair(str(target), str(draft), tmp_path / "pair", measure=False)
    expected = np.array(RECORDED["block"][name]["logits"], float)
    logits, _ = block_of(edgespec.load(tmp_path / "pair", threads=1), TEXT, DRAFTED[:2])
    seen = ~np.isnan(expected[:3])
    assert np.abs(logits - expected[:3])[seen].max() > 1e-3


# --- other layouts --------------------------------------------------------------------------------


def flat(name: str, architecture: str, **own: object) -> dict[str, object]:
    """The config of a draft whose layers' keys are beside the others."""
    layers = BLOCK_CONFIGS[name]["transformer_layer_config"]
    return {**layers, "architectures": [architecture], "num_target_layers": 8, **own}


DEEPSPEC = flat(
    "dspark",
    "Qwen3DSparkModel",
    block_size=5,
    mask_token_id=7,
    target_layer_ids=[1, 4],
    num_anchors=512,
    markov_rank=16,
    markov_head_type="vanilla",
    enable_confidence_head=True,
    confidence_head_with_markov=True,
    confidence_head_alpha=1.0,
)
# Half of the keys are in a part of the config, and rotary positions turn neighbours.
LIQUID = flat(
    "dspark",
    "Lfm2DSparkDraftModel",
    block_size=5,
    dflash_config={"mask_token_id": 7, "num_target_layers": 8, "target_layer_ids": [1, 4]},
    enable_confidence_head=True,
    markov_head_type="vanilla",
    markov_rank=16,
    rope_is_neox_style=False,
)
ZLAB_KEYS = {"mask_token_id": 7, "target_layer_ids": [0, 3, 5]}
ZLAB = flat("dflash", "DFlashDraftModel", block_size=5, dflash_config=ZLAB_KEYS)
ZLAB2_KEYS = {
    **{key: BLOCK_CONFIGS["dflash2"][key] for key in ("conv_group_size", "conv_kernel_size")},
    **{key: BLOCK_CONFIGS["dflash2"][key] for key in ("selector_rank", "selector_top_k")},
    "block_size": 5,
    "mask_token_id": 7,
    "target_layer_ids": [1, 3],
}
ZLAB2 = flat("dflash2", "DFlashDraftModel", dflash_config=ZLAB2_KEYS)


def with_neighbours(tensors):
    """The same draft in another order: number i + 8 of each head of 16 comes after number i."""

    def moved(tensor):
        heads = tensor.reshape(-1, 2, 8, *tensor.shape[1:])
        return heads.transpose(1, 2).reshape(tensor.shape).contiguous()

    turned = ("q_proj", "k_proj", "q_norm", "k_norm")
    return {
        name: moved(tensor) if name.split(".")[-2:][0] in turned else tensor
        for name, tensor in tensors.items()
    }


@deep
@pytest.mark.parametrize(
    ("name", "config"),
    [("dspark", DEEPSPEC), ("dflash", ZLAB), ("dflash2", ZLAB2), ("dspark", LIQUID)],
)
def test_other_layouts_are_the_same_drafts(target, tmp_path, name, config):
    """With all tokens proposed, and so with the target's head."""
    package = {**BLOCK_CONFIGS[name], "draft_vocab_size": 272}
    tensors = block_tensors(package)
    found = []
    for kind, settings in (("package", package), ("other", config)):
        if settings is LIQUID:
            tensors = with_neighbours(tensors)
        draft = write_draft(tmp_path / kind, settings, tensors)
        folder = tmp_path / f"{kind}-pair"
        export_pair(str(target), str(draft), folder, measure=False)
        found.append(block_of(edgespec.load(folder, threads=1), TEXT, DRAFTED[:2])[0])
    np.testing.assert_array_equal(*found)


@deep
@pytest.mark.parametrize(
    ("drafted", "rows"), [(5, 5), (4, 4)], ids=["from the anchor", "from the masks"]
)
def test_an_older_config_says_by_its_tokens_which_rows_draft(target, tmp_path, drafted, rows):
    config = {**BLOCK_CONFIGS["dspark"]}
    methods = {"proposal_methods": [{"speculative_tokens": drafted}]}
    draft = write_draft(tmp_path / "d", config, block_tensors, speculators_config=methods)
    export_pair(str(target), str(draft), tmp_path / "pair", measure=False)
    assert edgespec.load(tmp_path / "pair", threads=1).draft.block == rows


# --- refusals -------------------------------------------------------------------------------------


def _layers(**changes: object) -> dict[str, object]:
    return {"transformer_layer_config": {**QWEN3, "num_hidden_layers": 3, **changes}}


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("dflash", {"mask_token_id": None}, "has no 'mask_token_id'"),
        ("dflash", {"mask_token_id": 272}, "mask_token_id is 272 of 272 tokens"),
        ("dflash", {"block_size": 1}, "block_size is 1, and drafts 0 tokens"),
        ("dflash", {"block_size": 18}, "block_size is 18, and drafts 17 tokens"),
        ("dflash", {"aux_hidden_state_layer_ids": None}, "has no 'aux_hidden_state_layer_ids'"),
        ("dflash", {"aux_hidden_state_layer_ids": [1, 4]}, r"'fc.weight' is \[64, 192\]"),
        ("dflash", {"aux_hidden_state_layer_ids": [1, 4, 9]}, r"reads layers \[1, 4, 9\] of its"),
        ("dflash", {"shift_label": True}, "shift_label = True"),
        ("dflash", {"target_hidden_size": 32}, "config.json asks for"),
        ("dflash", _layers(model_type="gemma3_text"), "model_type = 'gemma3_text'"),
        ("dflash", _layers(attention_bias=True), "no tensor 'layers.0.self_attn.q_proj.bias'"),
        ("dspark", {"markov_head_type": "rnn"}, "markov_head_type = 'rnn'"),
        ("dspark", {"markov_rank": 0}, "markov_rank = 0"),
        ("dspark", {"markov_rank": 8}, "markov_w1.weight' is "),
        ("dspark", {"enable_confidence_head": False}, "such as 'confidence_head.proj.bias'"),
        ("dflash2", {"selector_rank": 8}, r"predecessor_codebook' is \[272, 16\]"),
        ("dflash2", {"conv_kernel_size": 2}, r"base_kernel' is \[2, 3, 64\]"),
        (
            "dflash2",
            {"draft_vocab_size": 90},
            "has no tensor '(lm_head|d2t)",
        ),
    ],
)
def test_what_no_graph_computes_is_refused_in_one_line(target, tmp_path, name, changes, words):
    draft = write_draft(tmp_path / "draft", BLOCK_CONFIGS[name], block_tensors, **changes)
    with pytest.raises(EdgespecError, match=words) as error:
        export_pair(str(target), str(draft), tmp_path / "pair")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({**DEEPSPEC, "num_target_layers": 9}, "trained for a target of 9 layers"),
        (
            {**LIQUID, "dflash_config": {"num_target_layers": 30, "target_layer_ids": [2]}},
            "trained for a target of 30 layers",
        ),
        ({**LIQUID, "dflash_config": {"attention_mode": "mla"}}, "attention_mode = 'mla'"),
        ({**DEEPSPEC, "target_layer_ids": [1, 7]}, "last norm returns"),
        ({**DEEPSPEC, "target_layer_ids": None}, "target_layer_ids is None"),
        ({**DEEPSPEC, "residual_scale": 2}, "residual_scale = 2"),
        ({**DEEPSPEC, "rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "'yarn'"),
        ({**DEEPSPEC, "block_size": None}, "has no 'block_size'"),
        ({**ZLAB, "dflash_config": {**ZLAB_KEYS, "projector_type": "dspark"}}, "projector_type"),
        ({**ZLAB, "dflash_config": None}, "target_layer_ids is None"),
        ({**ZLAB, "block_size": None}, "has no 'block_size'"),
        ({**DEEPSPEC, "architectures": ["Gemma4DSparkModel"]}, "Gemma4DSparkModel"),
    ],
)
def test_other_layouts_are_refused_in_one_line(target, tmp_path, config, words):
    draft = write_draft(tmp_path / "draft", config, {"fc.weight": torch.zeros(2, 2)})
    with pytest.raises(EdgespecError, match=words) as error:
        export_pair(str(target), str(draft), tmp_path / "pair")
    assert "\n" not in str(error.value)


def test_a_token_beyond_the_block_is_refused(case):
    pair = edgespec.load(case[1], threads=1)
    most = pair.draft.block - 1
    block_of(pair, TEXT, DRAFTED[:most])
    assert pair.draft.confidence_after(4) == 0
    with pytest.raises(EdgespecError, match=f"one at a time, at most {most}"):
        pair.draft.score([4])
