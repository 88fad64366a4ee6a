"""Claim: a packed target is the exported one, and writes over a cache what it would without."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from edgespec_distill.data.examples import similar_lengths
from edgespec_distill.models import llama_forward as llama
from edgespec_export.quantization.hadamard import STREAM_BLOCK, block_size, rotated
from gpu_drafts import module, packed, write_packable

decoding, generation, packed_target, writing = map(
    module, ("decoding", "generation", "packed_target", "writing")
)
PROMPTS = [[5, 6, 7], [40] * 3 + [9], list(range(3, 65)), [8]]  # one of them crosses 64 positions
NEW = 12


@pytest.fixture(scope="module", params=["llama", "qwen2"])
def folder(request, tmp_path_factory):
    return write_packable(tmp_path_factory.mktemp(request.param) / "target", request.param)


@pytest.fixture(scope="module")
def file(folder, tmp_path_factory):
    return packed(folder, tmp_path_factory.mktemp("packed"))


@pytest.fixture(scope="module")
def model(file):
    return packed_target.open_target(file, "cpu", torch.float32)


@pytest.fixture(scope="module")
def original(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@torch.no_grad()
def continued(original, prompt, count) -> list[int]:
    """Greedily, with a pass over the whole text for each token."""
    ids = list(prompt)
    for _ in range(count):
        ids.append(int(original(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt) :]


def test_packing_keeps_a_target_on_the_grid(folder, model):
    stored = load_file(folder / "model.safetensors")
    found = dict(model.named_parameters())
    assert found.keys() == stored.keys()
    for name, tensor in stored.items():
        if "embed_tokens" in name or "lm_head" in name:
            torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-6)
        else:
            assert torch.equal(found[name], tensor), name


def test_tables_of_several_blocks_are_rotated_back():
    """Rows of 96 have three blocks of 32; the tiny targets' have one."""
    rows = np.random.default_rng(0).integers(-127, 128, (5, 96)).astype(np.int8)
    scale = np.linspace(0.5, 1, 5, dtype=np.float32)

    class Packed:
        def get_tensor(self, name):
            return torch.from_numpy({"a.weight.int8": rows, "a.weight.scale": scale}[name])

    found = packed_target.values_of(Packed(), "a.weight.int8")
    wanted = torch.from_numpy(rotated(rows * scale[:, None], STREAM_BLOCK))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)
    assert block_size(96, STREAM_BLOCK) == 32


def test_weights_are_rounded_to_bf16_and_angles_are_not(file, model):
    half = packed_target.open_target(file, "cpu", torch.bfloat16)
    for name, weight in half.named_parameters():
        assert torch.equal(weight, model.get_parameter(name).bfloat16()), name
    assert torch.equal(half.model.rotary_emb.inv_freq, model.model.rotary_emb.inv_freq)


def test_a_file_without_a_weight_is_refused(file, tmp_path):
    with safe_open(file, "pt") as whole:
        tensors = {name: whole.get_tensor(name) for name in whole.keys()}  # noqa: SIM118
        del tensors["model.norm.weight"]
        save_file(tensors, tmp_path / "part.safetensors", whole.metadata())
    with pytest.raises(SystemExit, match=r"lacks model\.norm\.weight; pack the target again"):
        packed_target.open_target(tmp_path / "part.safetensors", "cpu", torch.float32)


@torch.no_grad()
def test_its_logits_are_those_of_transformers(model, original):
    ids = torch.tensor([PROMPTS[2], PROMPTS[2][::-1]])
    hidden, _ = llama.hidden_states(model, ids)
    torch.testing.assert_close(model.lm_head(hidden), original(ids).logits, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_decoding_over_the_cache_is_a_pass_over_the_whole_text(model, original):
    state, kept = decoding.Decoding(model, PROMPTS, NEW), torch.arange(len(PROMPTS))
    texts = [list(prompt) for prompt in PROMPTS]
    for step in range(NEW):
        tokens = state.logits.argmax(-1)
        for row, token in zip(kept.tolist(), tokens.tolist(), strict=True):
            last = original(torch.tensor([texts[row]])).logits[0, -1]
            index = kept.tolist().index(row)
            torch.testing.assert_close(state.logits[index], last, rtol=1e-3, atol=1e-3)
            texts[row].append(token)
        if step in (3, 7):
            rows = torch.tensor([1, 2, 3] if step == 3 else [0, 2])
            state.keep_rows(rows)
            kept, tokens = kept[rows], tokens[rows]
        state.add(tokens)


def length(text, ends) -> int:
    """Of a text up to its end."""
    return next((n for n, token in enumerate(text, 1) if token in ends), len(text))


def test_texts_end_where_the_target_ends_them(model, original, monkeypatch):
    prompts = [*PROMPTS, [90], [91, 5], [12] * 9, [200, 100]]
    whole = [continued(original, prompt, 24) for prompt in prompts]
    early = generation.ASK_EVERY
    for ends in combinations(sorted({token for text in whole for token in text}), 2):
        lengths = [length(text, ends) for text in whole]
        ended = sum(found <= early for found in lengths)
        if ended >= 3 and max(lengths) == 24 and any(early < found < 24 for found in lengths):
            break  # rows are dropped, one text ends later, and one never
    monkeypatch.setattr(model.config, "eos_token_id", list(ends))
    cold = [0.0] * len(prompts)
    found = generation.outputs_after(model, prompts, 24, cold)
    assert found == [text[:count] for text, count in zip(whole, lengths, strict=True)]
    assert len(set(map(len, found))) > 3
    cut = generation.outputs_after(model, prompts, 24, cold, finished_share=ended / len(prompts))
    assert cut == [text[:early] for text in found]


def test_tokens_are_drawn_at_the_temperature_of_each_row():
    torch.manual_seed(0)
    logits, count = torch.tensor([0.0, 1.0, 2.5]), 20000
    for heat in (0.0, 0.7, 1.0):
        rows = logits.expand(count, -1)
        drawn = generation.drawn(rows, torch.full((count, 1), heat))
        share = torch.bincount(drawn, minlength=3) / count
        wanted = (logits / heat).softmax(0) if heat else torch.tensor([0.0, 0.0, 1.0])
        torch.testing.assert_close(share, wanted, rtol=0, atol=0.015)


def test_a_text_that_repeats_itself_is_dull():
    assert generation.is_dull([1, 2, 3] * 20)
    assert generation.is_dull([*range(20), *[7] * 40])
    assert not generation.is_dull(list(range(60)))
    assert not generation.is_dull([*range(40), *[7] * 20])
    assert not generation.is_dull([7] * 23), "too short to say"


def test_written_texts_follow_their_prompts_and_none_is_dull(monkeypatch):
    outputs = {3: [1] * 40, 4: [5, 6], 5: [5, 6, 7, 8, 9], 9: [8, 7, 6, 5]}
    groups = []

    def outputs_after(model, prompts, new, temperatures, share):
        groups.append(len(prompts))
        assert len(temperatures) == len(prompts)
        return [outputs[len(prompt)] for prompt in prompts]

    monkeypatch.setattr(writing, "outputs_after", outputs_after)
    prompts = [[2] * length for length in outputs]
    texts = writing.write_texts(None, prompts, 60, 2 * (9 + writing.MOST_NEW), writing.random)
    assert sorted((len(text.prompt), text.output) for text in texts) == [
        (5, outputs[5]),
        (9, outputs[9]),
    ]
    assert groups == [2, 2]


def test_own_prompts_are_the_messages_that_ended(model, monkeypatch):
    (end,) = model.config.eos_token_id
    outputs = [[5, 6, end], [5, 6, end], [end], [7, 8, 9], [9] * 40 + [end], [4, end]]
    monkeypatch.setattr(writing, "outputs_after", lambda *_: outputs)
    found = writing.own_prompts(model, [20, 21], [end, 22], 6)
    assert found == [[20, 21, 5, 6, end, 22], [20, 21, 4, end, 22]]


def test_prompts_of_similar_length_are_in_a_group_that_has_room():
    prompts = [[1] * length for length in (3, 50, 4, 49, 2)]
    groups = list(similar_lengths(prompts, writing.MOST_NEW, 2 * (50 + writing.MOST_NEW)))
    assert Counter(tuple(map(len, group)) for group in groups) == Counter([(49, 50), (3, 4), (2,)])
