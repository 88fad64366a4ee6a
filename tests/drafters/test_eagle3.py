"""Claim: a published EAGLE-3 head computes in a pair what its architecture says.

The reference is written here from the architecture (Li et al. 2025, arXiv 2503.01840): row i of a
text takes the token i + 1 and the features of the token i, and there is no row without features.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file
from torch.nn.functional import linear, scaled_dot_product_attention, silu
from transformers import AutoModelForCausalLM

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_t5
from depth import one_in
from eagle3_checkpoints import (
    EPSILON,
    HEAD_SIZE,
    LAYERS,
    PROPOSED,
    THETA,
    WIDTH,
    head_tensors,
    write_deep_target,
    write_head,
)
from eagle_checkpoints import PROMPT, SIZE, write_target
from edgespec.cli.main import main
from edgespec.core.distribution_options import Sampling
from edgespec.core.draft import proposed
from edgespec.core.randomness import Seeded
from edgespec.core.requests import computed
from edgespec.core.sampling import SamplingProcessor
from edgespec.device.device import HERE
from edgespec.device.kernels import OFF, ON, SWITCH, kernels_for
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.safetensors_file import Safetensors
from edgespec_export.checkpoint.sources import Source
from edgespec_export.checkpoint.weights import read_rows
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_export.families.drafts.eagle3.head_checkpoint import open_checkpoints

READ = (2, 4, 5)  # numbers of layers that ran, of a target with 8
DEPTH = 3


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    return write_deep_target(tmp_path_factory.mktemp("target") / "llama")


@pytest.fixture(scope="module")
def head(tmp_path_factory) -> Path:
    return write_head(tmp_path_factory.mktemp("head") / "head")


@pytest.fixture(scope="module")
def pair_folder(target, head, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pair") / "pair"
    formats = ("fp32", "int8")
    export_pair(str(target), str(head), folder, target_formats=formats, draft_formats=formats)
    return folder


# --- the reference --------------------------------------------------------------------------------


class Reference:
    """The head in float64."""

    def __init__(self, target: Path, head: Path, read: tuple[int, ...] = READ) -> None:
        self.target = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
        self.embedding = self.target.get_input_embeddings().weight.detach().double()
        self.w = {name: x.double() for name, x in load_file(head / "model.safetensors").items()}
        self.read = read

    @torch.no_grad()
    def features(self, ids: list[int]) -> torch.Tensor:
        """[len(ids), 3 · WIDTH]: outputs of the layers, side by side."""
        states = self.target(torch.tensor([ids]), output_hidden_states=True).hidden_states
        return torch.cat([states[count][0] for count in self.read], dim=-1).double()

    def drafted(self, ids: list[int], drafted: list[int]) -> np.ndarray:
        """Logits [len(drafted) + 1, PROPOSED] after a text whose last token the target has not
        scored, and after each drafted token."""
        states = self.features(ids[:-1]) @ self.w["fc.weight"].T
        tokens = ids[1:]
        logits = []
        for token in [*drafted, None]:
            hidden = self.layer(tokens, states)
            logits.append(self.norm(hidden[-1:], "norm") @ self.w["lm_head.weight"].T)
            tokens = [*tokens, token]
            states = torch.cat([states, hidden[-1:]])
        return torch.cat(logits).numpy()

    def layer(self, tokens: list[int], states: torch.Tensor) -> torch.Tensor:
        at = "midlayer"
        embedded = self.embedding[torch.tensor(tokens)]
        both = [
            self.norm(embedded, f"{at}.input_layernorm"),
            self.norm(states, f"{at}.hidden_norm"),
        ]
        read = torch.cat(both, dim=-1)
        q, k, v = (
            self.heads(linear(read, self.w[f"{at}.self_attn.{part}_proj.weight"])) for part in "qkv"
        )
        k, v = (x.repeat_interleave(len(q) // len(x), dim=0) for x in (k, v))
        y = scaled_dot_product_attention(self.rotated(q), self.rotated(k), v, is_causal=True)
        y = y.transpose(0, 1).reshape(len(tokens), -1)
        x = states + linear(y, self.w[f"{at}.self_attn.o_proj.weight"])
        inner = self.norm(x, f"{at}.post_attention_layernorm")
        gate, up = (
            linear(inner, self.w[f"{at}.mlp.{part}_proj.weight"]) for part in ("gate", "up")
        )
        return x + linear(silu(gate) * up, self.w[f"{at}.mlp.down_proj.weight"])

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        scale = (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt()
        return x * scale * self.w[f"{name}.weight"]

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(len(x), -1, HEAD_SIZE).transpose(0, 1)

    def rotated(self, x: torch.Tensor) -> torch.Tensor:
        pairs = torch.arange(0, HEAD_SIZE, 2, dtype=torch.float64)
        angles = torch.arange(x.shape[1])[:, None] * THETA ** (-pairs / HEAD_SIZE)
        first, second = x.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@pytest.fixture(scope="module")
def reference(target, head) -> Reference:
    return Reference(target, head)


def drafted_logits(pair: edgespec.Pair, prompt: list[int], drafted: list[int]) -> np.ndarray:
    """The head's logits after a prompt, and after each drafted token."""
    assert pair.draft is not None
    pair.target.prefill(prompt)
    pair.draft.prefill(prompt)
    tokens = [prompt[-1], *drafted]
    return np.concatenate([pair.draft.score([token]).copy() for token in tokens])


# --- numbers --------------------------------------------------------------------------------------


def test_logits_of_drafted_positions_are_those_of_the_reference(pair_folder, reference):
    pair = edgespec.load(pair_folder, threads=1)
    prompt, drafted = [*PROMPT, 200, 7, 31], [9, 250, 14]
    expected = reference.drafted(prompt, drafted)
    assert expected.std() > 1
    np.testing.assert_allclose(
        drafted_logits(pair, prompt, drafted), expected, atol=1e-5, rtol=1e-5
    )


def test_accepted_tokens_are_read_with_the_targets_features(pair_folder, reference):
    """The second round's rows start from features where the first round's had the head's states."""
    pair = edgespec.load(pair_folder, threads=1)
    assert pair.draft is not None
    drafter = ModelDrafter(pair.draft, SamplingProcessor(Sampling(1.0)), pair.vocabulary)
    prompt = list(PROMPT)
    text = [pair.target.prefill(prompt)]
    drafter.begin(prompt)
    for seed in range(4):
        proposal = computed(proposed(drafter, text, DEPTH, Seeded(seed)))
        rows = reference.drafted([*prompt, *text[1:]], proposal.tokens)
        for q, row in zip(proposal.q, rows, strict=False):
            expected = SamplingProcessor(Sampling(1.0))(row.astype(np.float32)).probabilities
            np.testing.assert_allclose(q.probabilities, expected, atol=1e-5)
        # As if one token had been accepted and the next one replaced.
        pair.target.score([text[-1], proposal.tokens[0]])
        text += [proposal.tokens[0], 90 + seed]


def test_drafted_ids_are_the_targets_ids_by_their_offsets(pair_folder, head):
    """Offsets that are taken for ids, or not added at all, propose other tokens."""
    offsets = load_file(head / "model.safetensors")["d2t"]
    tokens = (offsets + torch.arange(PROPOSED)).tolist()
    pair = edgespec.load(pair_folder, threads=1)
    assert pair.vocabulary.to_target_ids(range(PROPOSED)) == tokens
    assert tokens not in (offsets.tolist(), list(range(PROPOSED)))
    assert pair.draft is not None
    drafter = ModelDrafter(pair.draft, SamplingProcessor(Sampling(0.0)), pair.vocabulary)
    text = [pair.target.prefill(PROMPT)]
    drafter.begin(PROMPT)
    proposal = computed(proposed(drafter, text, 1, Seeded(0)))
    best = drafted_logits(pair, list(PROMPT), [])[0].argmax()
    assert proposal.tokens == [tokens[best]]


def test_the_layers_of_a_config_are_outputs_counted_from_0(target, tmp_path):
    head = write_head(
        tmp_path / "head", eagle_config={"eagle_aux_hidden_state_layer_ids": [0, 3, 7]}
    )
    export_pair(str(target), str(head), tmp_path / "pair", measure=False)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    states = Reference(target, head, (1, 4, 7)).features(list(PROMPT))[:, : 2 * WIDTH]
    pair.target.prefill([*PROMPT, 3])
    ours = pair.target.features[: len(PROMPT)]
    np.testing.assert_allclose(ours[:, : 2 * WIDTH], states, atol=2e-5, rtol=1e-4)
    assert ours.shape[1] == 3 * WIDTH


def test_a_head_with_an_embedding_of_its_own_reads_that(target, tmp_path):
    tensors = head_tensors()
    generator = torch.Generator().manual_seed(8)
    tensors["embed_tokens.weight"] = torch.randn(SIZE, WIDTH, generator=generator)
    head = write_head(tmp_path / "head", tensors)
    export_pair(str(target), str(head), tmp_path / "pair", measure=False)
    reference = Reference(target, head)
    reference.embedding = tensors["embed_tokens.weight"].double()
    pair = edgespec.load(tmp_path / "pair", threads=1)
    np.testing.assert_allclose(
        drafted_logits(pair, list(PROMPT), [9, 250]),
        reference.drafted(list(PROMPT), [9, 250]),
        atol=1e-5,
        rtol=1e-5,
    )


def test_a_head_that_may_propose_every_token_needs_no_offsets(target, tmp_path):
    tensors = head_tensors()
    del tensors["d2t"], tensors["t2d"]
    generator = torch.Generator().manual_seed(9)
    tensors["lm_head.weight"] = torch.randn(SIZE, WIDTH, generator=generator) / 4
    head = write_head(tmp_path / "head", tensors, draft_vocab_size=SIZE)
    export_pair(str(target), str(head), tmp_path / "pair", measure=False)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    expected = Reference(target, head).drafted(list(PROMPT), [9])
    np.testing.assert_allclose(
        drafted_logits(pair, list(PROMPT), [9]), expected, atol=1e-5, rtol=1e-5
    )
    assert pair.generate(PROMPT, max_new_tokens=8, draft="model", gamma=2).stats.drafted


def test_a_head_in_safeailabs_layout_is_read_as_specforges(target, head, reference, tmp_path):
    """Its config is a Llama's but for one key, and its tensors are in a file of PyTorch's."""
    config = {"architectures": ["LlamaForCausalLM"], "pretraining_tp": 1}
    theirs = write_head(tmp_path / "head", **config)
    (theirs / "model.safetensors").unlink()
    torch.save(head_tensors(), theirs / "pytorch_model.bin")
    export_pair(str(target), str(theirs), tmp_path / "pair", measure=False)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    np.testing.assert_allclose(
        drafted_logits(pair, list(PROMPT), [9, 250]),
        reference.drafted(list(PROMPT), [9, 250]),
        atol=1e-5,
        rtol=1e-5,
    )


def test_blocks_of_rows_are_read_alone(target, head, monkeypatch):
    """A vocabulary's table is never read as a whole, also not through what wraps its source."""
    _, opened = open_checkpoints(*(Source(path, path.name) for path in (target, head)))
    weights = family_of(opened.config, "head").view(opened.weights)
    names = ("embed_tokens.weight", "lm_head.weight", "midlayer.self_attn.k_proj.state.weight")
    whole = {name: weights.read(name) for name in names}
    monkeypatch.delattr(Safetensors, "read")
    for name, tensor in whole.items():
        np.testing.assert_array_equal(read_rows(weights, name, 3, 9), tensor[3:9])


def test_positions_go_on_after_those_of_training(pair_folder):
    """max_position_embeddings of the head is 64, that of its target 128."""
    pair = edgespec.load(pair_folder, threads=1)
    assert pair.draft is not None
    assert pair.draft.capacity == pair.target.capacity == 128


# --- texts ----------------------------------------------------------------------------------------

formats_and_kernels = pytest.mark.parametrize(
    ("variant", "kernels"), [("fp32", ON), ("int8", ON), ("int8", OFF)]
)


@one_in(2)
@formats_and_kernels
def test_greedy_texts_are_the_targets(pair_folder, variant, kernels, monkeypatch):
    monkeypatch.setenv(SWITCH, kernels)
    pair = edgespec.load(pair_folder, threads=1, target_format=variant, draft_format=variant)
    for prompt in (list(PROMPT), [40]):  # one token: no features are before it
        plain = pair.generate(prompt, max_new_tokens=24, draft=False)
        drafted = pair.generate(prompt, max_new_tokens=24, draft="model", gamma=3)
        assert drafted.stats.drafted > 0
        assert drafted.token_ids == plain.token_ids


@one_in(2, turn=1)
@formats_and_kernels
def test_a_seed_has_one_text(pair_folder, variant, kernels, monkeypatch):
    monkeypatch.setenv(SWITCH, kernels)
    pair = edgespec.load(pair_folder, threads=1, target_format=variant, draft_format=variant)
    accepted = 0
    for seed in range(4):  # so hot that a random head agrees now and then
        options = {"max_new_tokens": 24, "temperature": 3.0, "seed": seed}
        plain = pair.generate(PROMPT, draft=False, **options)
        drafted = pair.generate(PROMPT, draft="model", gamma=3, **options)
        assert drafted.token_ids == plain.token_ids
        accepted += drafted.stats.accepted
    assert accepted > 0


def test_several_texts_at_once_are_those_alone(pair_folder):
    if kernels_for(HERE) is None:
        pytest.skip("texts share calls only with kernels")
    pair = edgespec.load(pair_folder, threads=1, target_format="int8", draft_format="int8")
    prompts = [[40 + number, *PROMPT[: 3 + number]] for number in range(4)]
    options = {"max_new_tokens": 16, "draft": "model", "gamma": 3, "temperature": 3.0}
    alone = [pair.generate(prompt, seed=5 + i, **options) for i, prompt in enumerate(prompts)]
    together = list(pair.generate_many(prompts, seed=5, **options))
    assert sum(text.stats.accepted for text in alone) > 0
    assert [text.token_ids for text in together] == [text.token_ids for text in alone]
    assert [text.stats.accepted for text in together] == [text.stats.accepted for text in alone]


def test_a_target_of_another_family_has_a_head(tmp_path):
    target = write_deep_target(tmp_path / "target", "qwen3")
    head = write_head(tmp_path / "head")
    export_pair(
        str(target), str(head), tmp_path / "pair", measure=False, draft_formats=("int8-groups",)
    )
    pair = edgespec.load(tmp_path / "pair", threads=1)
    plain = pair.generate(PROMPT, max_new_tokens=12, draft=False)
    assert pair.generate(PROMPT, max_new_tokens=12, draft="model").token_ids == plain.token_ids


@one_in(2)
@pytest.mark.parametrize("form", ["fp16", "int8", "int4", "int8-groups", "int8-weights"])
def test_every_format_is_near_float32(target, head, reference, tmp_path, form):
    export_pair(str(target), str(head), tmp_path / "p", measure=False, draft_formats=(form,))
    pair = edgespec.load(tmp_path / "p", threads=1)
    expected = reference.drafted(list(PROMPT), [9, 250])
    error = np.abs(drafted_logits(pair, list(PROMPT), [9, 250]) - expected).mean()
    assert error < (0.5 if "4" in form else 0.1) * expected.std()


def test_inspect_says_what_the_draft_is(pair_folder):
    printed = CliRunner().invoke(main, ["inspect", str(pair_folder)])
    assert printed.exit_code == 0
    assert f"head (eagle), {PROPOSED} tokens" in printed.output
    assert "KL" in printed.output.split("draft:")[1]


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"architectures": ["Eagle3Speculator"]}, r"architectures = \['Eagle3Speculator'\]"),
        ({"model_type": "deepseek_v3"}, "model_type = 'deepseek_v3'"),
        ({"num_hidden_layers": 2}, "num_hidden_layers = 2"),
        ({"attention_bias": True}, "attention_bias = True"),
        ({"norm_before_residual": True}, "norm_before_residual = True"),
        ({"fc_norm": True}, "fc_norm = True"),
        ({"norm_output": True}, "norm_output = True"),
        ({"qk_norm": True}, "qk_norm = True"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope scaling 'yarn'"),
        ({"vocab_size": SIZE + 1}, rf"reads {SIZE + 1} tokens and .* has {SIZE}; pair it with"),
        ({"hidden_size": 32}, f"is 32 wide, .* {WIDTH}; pair it with the target"),
        ({"target_hidden_size": 32}, r"'fc.weight' is \[64, 192\], and config.json asks for"),
        ({"draft_vocab_size": 90}, r"'lm_head.weight' is \[100, 64\], and config.json asks for"),
        ({"draft_vocab_size": 0}, "draft_vocab_size is 0"),
        ({"eagle_config": {"use_aux_hidden_state": False}}, "use_aux_hidden_state = False"),
        ({"eagle_config": {"parallel_draft_step": 2}}, "parallel_draft_step = 2"),
        (
            {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 8]}},
            r"reads layers \[2, 4, 9\] of its target, counted from 1 and upwards, .* has 8; pair",
        ),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [5, 3, 1]}}, r"\[6, 4, 2\] of its"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": []}}, r"reads layers \[\] of its"),
        (
            {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 4.5]}},
            r"eagle_aux_hidden_state_layer_ids is \[1, 3, 4.5\]",
        ),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": 3}}, "value of the wrong kind"),
        ({"eagle_config": ["fc"]}, "value of the wrong kind"),
        ({"hidden_size": None}, "config.json has no 'hidden_size'"),
        ({"vocab_size": "many"}, "vocab_size is 'many'"),
        ({"architectures": ["LlamaForCausalLM"], "residual_scale": 2}, "residual_scale = 2"),
        ({"num_attention_heads": 2}, r"q_proj.token.weight' is \[64, 64\], and config.json asks"),
    ],
)
def test_what_no_graph_computes_is_refused_in_one_line(target, tmp_path, config, words):
    head = write_head(tmp_path / "head", **config)
    with pytest.raises(EdgespecError, match=words) as error:
        export_pair(str(target), str(head), tmp_path / "pair")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("d2t", None, "has no tensor 'd2t' that says which"),
        ("d2t", -torch.arange(PROPOSED), "does not name 100 tokens of 272 in increasing order"),
        ("d2t", torch.full((PROPOSED,), SIZE), "does not name 100 tokens"),
        ("d2t", torch.zeros(PROPOSED, 1, dtype=torch.int64), "does not name 100 tokens"),
        ("d2t", torch.zeros(0, dtype=torch.int64), "does not name 100 tokens"),
        ("d2t", torch.zeros(PROPOSED, dtype=torch.int32), "d2t is stored as I32"),
        ("lm_head.weight", None, "has no tensor 'lm_head.weight'"),
        ("midlayer.self_attn.k_proj.weight", None, "has no tensor 'midlayer.self_attn.k_proj.w"),
        ("midlayer.hidden_norm.weight", None, "has no tensor 'midlayer.hidden_norm.weight'"),
        ("fc.weight", torch.zeros(WIDTH, WIDTH), r"'fc.weight' is \[64, 64\]"),
        ("midlayer.self_attn.q_norm.weight", torch.ones(HEAD_SIZE), "q_norm.weight"),
        ("midlayer.self_attn.q_proj.weight", torch.zeros(WIDTH, WIDTH), "q_proj.token.weight"),
        ("midlayer.self_attn.q_proj.weight", torch.zeros(WIDTH, 129), r"is \[64, 129\], and not a"),
        (
            "midlayer.self_attn.q_proj.weight",
            torch.tensor(1.0),
            r"weight' is \[\], and not a",
        ),
        ("layers.1.mlp.up_proj.weight", torch.ones(2, 2), "layers.1.mlp.up_proj.weight"),
    ],
)
def test_other_tensors_are_refused_in_one_line(target, tmp_path, name, change, words):
    tensors = head_tensors()
    if change is None:
        del tensors[name]
    else:
        tensors[name] = change
    head = write_head(tmp_path / "head", tensors)
    with pytest.raises(EdgespecError, match=words) as error:
        export_pair(str(target), str(head), tmp_path / "pair")
    assert "\n" not in str(error.value)


def test_a_file_with_more_than_tensors_is_never_unpickled(target, tmp_path):
    head = write_head(tmp_path / "head")
    (head / "model.safetensors").unlink()
    torch.save({**head_tensors(), "code": Path}, head / "pytorch_model.bin")
    with pytest.raises(EdgespecError, match=r"pytorch_model.bin: .* never unpickled") as error:
        export_pair(str(target), str(head), tmp_path / "pair")
    assert "\n" not in str(error.value)


def test_a_head_without_weights_is_refused(target, tmp_path):
    head = write_head(tmp_path / "head")
    (head / "model.safetensors").unlink()
    with pytest.raises(EdgespecError, match=r"head: has no weights; looked for model.safetensors"):
        export_pair(str(target), str(head), tmp_path / "pair")


def test_a_head_is_for_one_target(head, tmp_path):
    shallow = write_target(tmp_path / "shallow", "llama")
    with pytest.raises(EdgespecError, match=r"reads layers \[2, 1, 0\] of its target"):
        export_pair(str(shallow), str(head), tmp_path / "pair")
    narrow = write_llama(
        tmp_path / "narrow", vocab_size=SIZE, layers=LAYERS, tokenizer=byte_tokenizer(SIZE)
    )
    tensors = head_tensors() | {"embed_tokens.weight": torch.zeros(SIZE, WIDTH)}
    own = write_head(tmp_path / "own", tensors)
    with pytest.raises(EdgespecError, match=r"target of width 64, .* pair it with the target"):
        export_pair(str(narrow), str(own), tmp_path / "pair")
    t5 = write_t5(tmp_path / "t5", vocab_size=SIZE, tokenizer=byte_tokenizer(SIZE))
    with pytest.raises(EdgespecError, match="hidden states of a Llama-like target"):
        export_pair(str(t5), str(head), tmp_path / "pair")
    with pytest.raises(EdgespecError, match="so it cannot be a target"):
        export_pair(str(head), None, tmp_path / "pair")


def test_a_head_with_another_tokenizer_is_refused(target, tmp_path):
    head = write_head(tmp_path / "head")
    tokenizer = byte_tokenizer(SIZE - 1)
    tokenizer.add_tokens(["another"])
    tokenizer.save(str(head / "tokenizer.json"))
    with pytest.raises(EdgespecError, match=r"tokenizers of .* pair the draft with the target"):
        export_pair(str(target), str(head), tmp_path / "pair")
