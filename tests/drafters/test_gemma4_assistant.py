"""Claim: Gemma 4's assistant computes what transformers computes from its target's keys, values and
hidden states, and changes no text.

Tiny random checkpoints; texts beyond the windows. No assistant was run with its real weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import edgespec
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.components.positions import Positions
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_export.families.drafts.gemma4.assistant import NEVER, Gemma4Assistant
from edgespec_runtimes.ort.reading.ort_assistant import OrtAssistant
from gemma4_checkpoints import (
    ASSISTANT,
    ASSISTANT_OUTER,
    GLOBAL,
    LOCAL,
    SIZES,
    gemma4_model,
    write_assistant,
    write_gemma4,
)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

ORDERED = {
    **{"use_ordered_embeddings": True, "num_centroids": 34, "centroid_intermediate_top_k": 5}
}
TEXT = [int(token) for token in np.random.default_rng(3).integers(3, 272, size=24)]


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return write_gemma4(tmp_path_factory.mktemp("target") / "target")


@pytest.fixture(scope="module")
def drafts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drafts")
    return {
        "all tokens": write_assistant(folder / "all"),
        "near tokens": write_assistant(folder / "near", **ORDERED),
    }


def reference(draft, drafted):
    """Logits after the text's last token, which the target has not scored, and drafted ones."""
    model = transformers.Gemma4AssistantForCausalLM.from_pretrained(draft).eval()
    causal = gemma4_model(SIZES)
    ids = torch.tensor([TEXT[:-1]])
    with torch.inference_mode():
        known = causal(ids, output_hidden_states=True, return_shared_kv_states=True)
        state, rows = known.hidden_states[-1][:, -1:], []
        for token in [TEXT[-1], *drafted]:
            embedded = causal.get_input_embeddings()(torch.tensor([[token]]))
            found = model(
                inputs_embeds=torch.cat([embedded, state], dim=-1),
                position_ids=torch.tensor([[len(TEXT) - 1]]),
                shared_kv_states=known.shared_kv_states,
            )
            state = found.last_hidden_state
            rows.append(found.logits[0, -1].numpy())
    return np.stack(rows)


def exported(target, draft, out, **options):
    export_pair(str(target), str(draft), out, measure=False, threads=1, **options)
    return out


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("gpu", r"all reads its target's keys, values and hidden states \(an assistant\)"),
        ("npu", "target has layers that share a layer of the cache"),
    ],
)
def test_a_pair_that_no_device_has_graphs_for_is_refused(target, drafts, tmp_path, host, words):
    with pytest.raises(EdgespecError, match=f"{words}, which .*; leave --for {host} out"):
        exported(target, drafts["all tokens"], tmp_path / "pair", host=host)
    assert not (tmp_path / "pair").exists()


def opened(folder):
    manifest = read_manifest(folder)
    model = open_model(folder, manifest.target, "fp32", min_rows=2)
    return model, open_model(folder, manifest.draft, "fp32", target=model)


def logits(folder, drafted):
    """As `reference`, after a round that was rejected."""
    target, draft = opened(folder)
    pending = target.prefill(TEXT)
    draft.prefill(TEXT)
    draft.score([pending])
    draft.score([9])
    draft.rewind(len(TEXT) - 1)
    return np.concatenate([draft.score([token]) for token in (pending, *drafted)])


def difference(target, draft, out):
    drafted = [17, 201, 44]
    found, expected = logits(exported(target, draft, out), drafted), reference(draft, drafted)
    near = found > NEVER / 2
    return np.abs(found - expected)[near].max()


@pytest.mark.parametrize("kind", ["all tokens", "near tokens"])
def test_its_logits_are_those_of_transformers(kind, target, drafts, tmp_path):
    assert difference(target, drafts[kind], tmp_path / "pair") <= 1e-4


def test_logits_of_near_tokens_are_those_of_the_nearest_centroids(target, drafts, tmp_path):
    found = logits(exported(target, drafts["near tokens"], tmp_path / "pair"), [17])
    expected = reference(drafts["near tokens"], [17])
    assert ((found > NEVER / 2) == (expected > expected.min(axis=1, keepdims=True))).all()
    assert (found > NEVER / 2).sum(axis=1).tolist() == [40, 40]
    assert (found.argmax(axis=1) == expected.argmax(axis=1)).all()


MISTAKES = {
    "a window of one position less": (
        Gemma4Assistant,
        "_heads_of",
        lambda self, index: _narrowed(_heads_of(self, index)),
    ),
    "the position of the last row seen": (Positions, "later", lambda self, g, steps: self),
    "the state of the position before": (
        OrtAssistant,
        "_target_features",
        property(lambda self: np.roll(self._features, 1, axis=0), lambda self, x: _keep(self, x)),
    ),
}
_heads_of = Gemma4Assistant._heads_of


def _narrowed(heads):
    return heads if heads.window is None else replace(heads, window=heads.window - 1)


def _keep(model, features):
    model._features = features


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_changes_its_logits(mistake, target, drafts, tmp_path, monkeypatch):
    owner, name, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, name, wrong, raising=False)
    assert difference(target, drafts["all tokens"], tmp_path / "pair") > 1e-2


@pytest.mark.parametrize("kind", ["all tokens", "near tokens"])
def test_it_changes_no_text(kind, target, drafts, tmp_path):
    formats = {"target_formats": ["int8"], "draft_formats": ["int8"], "cache_formats": ["int8"]}
    folder = exported(target, drafts[kind], tmp_path / "pair", **formats)
    pair = edgespec.load(folder, threads=1)
    drafted = 0
    for seed in range(2):
        prompt = TEXT[: 1 + 12 * seed]
        for options in ({}, {"temperature": 1.0, "seed": seed}):
            given = {"max_new_tokens": 16, "logprobs": True, "ignore_eos": True, **options}
            alone = pair.generate(prompt, draft=False, **given)
            text = pair.generate(prompt, gamma=3, **given)
            assert (text.token_ids, text.logprobs) == (alone.token_ids, alone.logprobs)
            drafted += text.stats.drafted
    assert drafted > 30


# --- what is refused ------------------------------------------------------------------------------


def test_it_is_no_target(target, drafts, tmp_path):
    with pytest.raises(EdgespecError, match="so it cannot be a target"):
        export_pair(str(drafts["all tokens"]), None, tmp_path / "pair", measure=False)


def test_a_target_of_another_width_is_refused(drafts, tmp_path):
    other = write_gemma4(tmp_path / "other", hidden_size=32)
    with pytest.raises(EdgespecError, match="a Gemma 4 of width 64"):
        export_pair(str(other), str(drafts["all tokens"]), tmp_path / "pair", measure=False)


def test_a_target_of_another_family_is_refused(drafts, tmp_path):
    from gemma3_checkpoints import write_gemma3

    other = write_gemma3(tmp_path / "other")
    with pytest.raises(EdgespecError, match="reads the keys and values of a Gemma 4"):
        export_pair(str(other), str(drafts["all tokens"]), tmp_path / "pair", measure=False)


def test_a_number_of_groups_that_does_not_divide_the_tokens_is_refused():
    values = {
        "model_type": "gemma4_assistant",
        "text_config": ASSISTANT,
        **ASSISTANT_OUTER,
        **ORDERED,
    }
    values |= {"num_centroids": 5, "target": {"positions": 128, "layers": {LOCAL: 1, GLOBAL: 2}}}
    with pytest.raises(EdgespecError, match="272 tokens in 5 groups"):
        family_of(values, "model")
