"""Distillation: the mathematics against transformers and the definitions, then whole runs."""

from __future__ import annotations

import dataclasses
import json
import platform
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors import SafetensorError
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_t5
from edgespec.cli.main import main
from edgespec.errors import EdgespecError, UsageError
from edgespec_distill import api as api_module
from edgespec_distill import run as run_module
from edgespec_distill.api import distill
from edgespec_distill.card import _card, _name
from edgespec_distill.data import target_outputs as outputs_module
from edgespec_distill.data.draft_vocabulary import (
    DraftVocabulary,
    frequent_vocabulary,
    full_vocabulary,
    restrict_vocabulary,
)
from edgespec_distill.data.examples import Example, Text, batches
from edgespec_distill.data.features import Features
from edgespec_distill.data.held_out import HeldOut
from edgespec_distill.data.target_outputs import TargetOutputs
from edgespec_distill.data.text_generation import (
    GenerationSettings,
    _draw,
    add_distributions,
    generate_texts,
    generate_with_distributions,
)
from edgespec_distill.models import target as target_module
from edgespec_distill.models.causal import Causal
from edgespec_distill.models.draft_builder import on_device_of
from edgespec_distill.models.seq2seq import Seq2Seq
from edgespec_distill.models.untrained_draft import last_layers, untrained_draft
from edgespec_distill.plan import Plan
from edgespec_distill.result import Acceptance, Distillation
from edgespec_distill.start import with_shape_of_start
from edgespec_distill.training.budget import Budget
from edgespec_distill.training.loss import forward_kl, overlap, total_variation
from edgespec_distill.training.wide_head import head_loss
from edgespec_distill.work_folder import recipe_of
from edgespec_export.api import export_pair
from edgespec_export.checkpoint.sources import Source, resolve

VOCABULARY = 272
TEXTS = [Text([5, 6, 7], [8, 9, 1]), Text([5], [4, 3]), Text([9, 8, 7, 6, 5], [11, 12, 13, 14])]
PLAN = Plan(layers=1, width=32, steps=120, max_new_tokens=12, positions=512, rate=5e-3)

LATER = {"layers": 1, "steps": 1, "max_new_tokens": 12, "positions": 512, "rate": 1e-9}


@pytest.fixture(scope="module")
def t5_folder(tmp_path_factory) -> Path:
    return write_t5(
        tmp_path_factory.mktemp("t5") / "target",
        vocab_size=VOCABULARY,
        tokenizer=byte_tokenizer(VOCABULARY, append_eos=True),
        layers=2,
        encoder_layers=2,
        heads=4,
        head_size=16,
        width=64,
        spread=1.5,
    )


@pytest.fixture(scope="module")
def llama_folder(tmp_path_factory) -> Path:
    return write_llama(
        tmp_path_factory.mktemp("llama") / "target",
        vocab_size=VOCABULARY,
        tokenizer=byte_tokenizer(VOCABULARY),
        layers=3,
        heads=4,
        kv_heads=2,
        head_size=16,
        max_position_embeddings=128,
        spread=1.5,
    )


@pytest.fixture
def prompts(tmp_path) -> Path:
    rng = random.Random(0)
    words = ["river", "stone", "light", "house", "green", "seven", "maybe", "under"]
    lines = [" ".join(rng.choices(words, k=3)) for _ in range(120)]
    file = tmp_path / "prompts.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def seq2seq(folder) -> Seq2Seq:
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    return Seq2Seq(model, full_vocabulary(model.config.vocab_size), start_token=0)


def causal(folder) -> Causal:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return Causal(model, full_vocabulary(model.config.vocab_size))


# --- the models


@pytest.mark.parametrize("gated", [False, True])
def test_the_lean_t5_computes_what_transformers_does(tmp_path, gated):
    learner = seq2seq(write_t5(tmp_path / "t5", vocab_size=20, encoder_layers=2, gated=gated))
    rows = iter(learner.logits(TEXTS).detach().split([len(t.output) for t in TEXTS]))
    for text in TEXTS:
        expected = learner.model(
            input_ids=torch.tensor([text.prompt]),
            decoder_input_ids=torch.tensor([[0, *text.output[:-1]]]),
        ).logits[0]
        torch.testing.assert_close(next(rows), expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3"])
def test_the_lean_llama_computes_what_transformers_does_after_the_prompt(tmp_path, kind):
    folder = write_llama(tmp_path / kind, vocab_size=20, heads=4, kv_heads=2, model_type=kind)
    learner = causal(folder)
    rows = iter(learner.logits(TEXTS).detach().split([len(t.output) for t in TEXTS]))
    for text in TEXTS:
        ids = torch.tensor([[*text.prompt, *text.output[:-1]]])
        expected = learner.model(ids).logits[0, len(text.prompt) - 1 :]
        torch.testing.assert_close(next(rows), expected, atol=2e-5, rtol=1e-5)


# --- what they write


def greedily(length: int, ends: list[int], **manner) -> GenerationSettings:
    return GenerationSettings(length, ends, temperature=0.0, **manner)


@pytest.fixture(params=["t5", "llama"])
def learner(request, t5_folder, llama_folder):
    return seq2seq(t5_folder) if request.param == "t5" else causal(llama_folder)


def test_greedy_outputs_are_the_arg_max_of_the_models_own_distributions(learner):
    texts = generate_texts(learner, [[40, 41, 42], [50], [60, 61]], greedily(8, [1]))
    assert [token for text in texts for token in text.output] == learner.logits(texts).argmax(
        -1
    ).tolist()


def test_a_text_is_the_same_whichever_others_end_before_it(learner):
    prompts = [[n, n + 1, 90 - n][: 1 + n % 3] for n in range(20, 60)]
    free = generate_texts(learner, prompts, greedily(12, []))
    ends = sorted({text.output[3] for text in free})[::2]  # so that the rows leave by and by
    together = generate_texts(learner, prompts, greedily(12, ends))
    alone = [generate_texts(learner, [text.prompt], greedily(12, ends))[0] for text in together]
    assert [text.output for text in together] == [text.output for text in alone]
    lengths = {len(text.output) for text in together}
    assert len(lengths) > 2
    assert max(lengths) == 12
    assert all(t.output[-1] in ends for t in together if len(t.output) < 12)


def test_when_enough_texts_have_ended_the_others_are_cut(llama_folder):
    writer = causal(llama_folder)
    prompts = [[n] for n in range(20, 40)]
    free = generate_texts(writer, prompts, greedily(12, []))
    ends = [free[0].output[2]]
    whole_texts = generate_texts(writer, prompts, greedily(12, ends))
    ended = sorted(len(t.output) for t in whole_texts if t.output[-1] in ends)
    share = len(ended) / len(prompts)
    cut = generate_texts(writer, prompts, greedily(12, ends, finished_share=share))
    assert max(len(text.output) for text in cut) == ended[-1] < 12


def test_tokens_are_drawn_from_the_distribution():
    logits = torch.tensor([[0.0, 1.0, -torch.inf, 2.0, 0.5]])
    torch.manual_seed(0)
    draws = _draw(logits.expand(40_000, -1), temperature=0.7)
    expected = (logits[0] / 0.7).softmax(0)
    shares = torch.bincount(draws, minlength=5) / len(draws)
    spread = (expected * (1 - expected) / len(draws)).sqrt()
    # One run in a million fails by probability; temperature 1 would be 40 standard deviations off.
    assert ((shares - expected).abs() <= 5 * spread).all()


def test_the_distributions_noted_while_writing_are_those_of_the_finished_texts(learner):
    prompts = [[40, 41, 42], [50], [60, 61]]
    noted, _ = generate_with_distributions(learner, prompts, greedily(8, [1]))
    for example in noted:
        (again,) = add_distributions(learner, [example])
        assert example.tokens[:, :8].tolist() == again.tokens[:, :8].tolist()
        torch.testing.assert_close(example.log_probs, again.log_probs, atol=2e-3, rtol=1e-3)


# --- the losses


def distributions(rows: int, tokens: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, tokens, generator=torch.Generator().manual_seed(seed)) * 2


def test_acceptance_is_the_sum_of_the_minima():
    p, q = distributions(5, 30, 0), distributions(5, 30, 1)
    expected = np.minimum(p.softmax(1).numpy(), q.softmax(1).numpy()).sum(1)
    np.testing.assert_allclose(overlap(p.softmax(1), q).numpy(), expected, rtol=1e-6)


def test_held_out_acceptance_is_that_of_every_position(llama_folder):
    """With a draft that lacks tokens: what it cannot say is never right."""
    target, model = causal(llama_folder), causal(llama_folder).model
    some = frequent_vocabulary(
        [[5, 6, 7, 8, 9, 11, 12]], [1], 120, model.get_input_embeddings().weight.data
    )
    draft = Causal(
        untrained_draft(model, layers=1, encoder_layers=1, width=None, vocabulary=some, seed=0),
        some,
    )
    greedy, sampled = (
        generate_texts(
            target, [[40, 41, 42], [50], [60, 61]], GenerationSettings(9, [1], temperature)
        )
        for temperature in (0.0, 1.0)
    )
    found = HeldOut(target, some, greedy, sampled).acceptance(draft)
    q = torch.zeros(sum(len(text.output) for text in sampled), VOCABULARY)
    q[:, some.outputs] = draft.logits(sampled).softmax(-1)
    shared = torch.minimum(target.logits(sampled).softmax(-1), q).sum(-1).mean()
    assert found.sampled == pytest.approx(shared.item(), abs=1e-3)
    guesses = some.outputs[draft.logits(greedy).argmax(-1)]
    same = guesses == target.logits(greedy).argmax(-1)
    assert found.greedy == pytest.approx(same.float().mean().item())


def test_over_all_tokens_the_losses_are_their_definitions():
    p, q = distributions(5, 30, 0), distributions(5, 30, 1)
    tokens = torch.arange(30).expand(5, 30)
    p_logs, q_logs = p.log_softmax(1), q.log_softmax(1)
    kl = (p_logs.exp() * (p_logs - q_logs)).sum(1).mean()
    torch.testing.assert_close(forward_kl(p_logs, tokens, q), kl)
    torch.testing.assert_close(
        total_variation(p_logs, tokens, q), 1 - overlap(p.softmax(1), q).mean()
    )


@pytest.mark.parametrize("loss", [forward_kl, total_variation])
def test_a_loss_is_least_where_the_draft_is_the_target(loss):
    p_logs = distributions(4, 12, 0).log_softmax(1)
    tokens = torch.arange(12).expand(4, 12)
    least = loss(p_logs, tokens, p_logs)
    assert abs(float(least)) < 1e-6
    assert all(
        float(loss(p_logs, tokens, p_logs + distributions(4, 12, s))) > 0.01 for s in range(1, 9)
    )


@pytest.mark.parametrize("loss", [forward_kl, total_variation])
def test_the_loss_after_a_wide_head_is_that_of_its_logits(loss):
    """More rows than are taken at once, and a last piece that is shorter."""
    generator = torch.Generator().manual_seed(2)
    hidden = torch.randn(300, 8, generator=generator, requires_grad=True)
    head = torch.randn(30, 8, generator=generator, requires_grad=True)
    tokens = torch.arange(20).expand(300, 20)
    p_logs = distributions(300, 30, 3).log_softmax(1)[:, :20]
    ours = 0.7 * head_loss(loss, p_logs, tokens, hidden, head)
    whole_loss = 0.7 * loss(p_logs, tokens, hidden @ head.T)
    torch.testing.assert_close(ours, whole_loss)
    gradients = (torch.autograd.grad(one, (hidden, head)) for one in (ours, whole_loss))
    torch.testing.assert_close(*gradients)


def test_distributions_are_the_targets_most_probable_tokens(llama_folder):
    target = causal(llama_folder)
    (example,) = add_distributions(target, [TEXTS[0]])
    logs = target.logits([TEXTS[0]]).log_softmax(-1)
    expected, tokens = logs.topk(64)
    assert example.tokens.tolist() == tokens.tolist()
    np.testing.assert_allclose(example.log_probs.numpy(), expected.detach().numpy(), atol=0.01)


def test_a_greedy_text_is_known_as_one_where_tokens_are_equally_probable(llama_folder):
    """In bf16 some are; the first of the sorted ones need not be the arg-max."""
    target = causal(llama_folder)
    prompts = [[40, 41, 42], [50], [60, 61]]
    torch.manual_seed(0)
    for greedy, temperature in ((True, 0.0), (False, 1.0)):
        examples, _ = generate_with_distributions(
            target, prompts, GenerationSettings(9, [1], temperature)
        )
        assert [example.is_greedy for example in examples] == [greedy] * len(prompts)
    tokens, logs = torch.tensor([[7, 5, 6]]), torch.tensor([[-1.0, -1.0, -2.0]])
    wrote = [Example([1], [token], tokens, logs) for token in (7, 5, 6, 8)]
    assert [example.is_greedy for example in wrote] == [True, True, False, False]


# --- the small vocabulary


def test_the_frequent_tokens_are_kept_and_the_others_stand_near_one():
    embeddings = torch.eye(6)
    embeddings[5] = embeddings[2] * 3 + 0.1  # in the direction of token 2
    found = frequent_vocabulary([[2, 2, 2, 4, 4, 5, 0]], always=[1], size=3, embeddings=embeddings)
    assert found.outputs.tolist() == [1, 2, 4]
    assert found.inputs[[1, 2, 4]].tolist() == [0, 1, 2]
    assert found.inputs[5] == 1
    assert found.known(torch.arange(6)).tolist() == [False, True, True, False, True, False]


def test_distributions_are_cut_to_the_drafts_tokens(llama_folder):
    target = causal(llama_folder)
    (example,) = add_distributions(target, [TEXTS[0]])
    outputs = example.tokens[0, [3, 0, 9]].long().sort().values
    some = DraftVocabulary(outputs, torch.zeros(VOCABULARY, dtype=torch.long))
    some.inputs[some.outputs] = torch.arange(3)
    (distribution,) = restrict_vocabulary([example], some)
    assert (distribution.prompt, distribution.output) == (example.prompt, example.output)
    for token, log, own, left in zip(
        example.tokens[0],
        example.log_probs[0],
        distribution.tokens[0],
        distribution.log_probs[0],
        strict=True,
    ):
        if int(token) in some.outputs.tolist():
            assert (int(some.outputs[own]), left) == (int(token), log)
        else:
            assert left == -torch.inf


@pytest.mark.parametrize("loss", [forward_kl, total_variation])
def test_a_position_whose_likely_tokens_the_draft_lacks_teaches_nothing(loss):
    q = torch.randn(2, 5, requires_grad=True)
    p_logs = torch.full((2, 3), -torch.inf)
    p_logs[0, 1] = 0.0
    loss(p_logs, torch.tensor([[0, 4, 2], [1, 2, 3]]), q).backward()
    assert q.grad is not None
    assert torch.isfinite(q.grad).all()
    assert q.grad.any(1).tolist() == [True, False]


# --- the draft before its training

AWKWARD = {"heads": 3, "head_size": 16, "width": 42}  # 48 columns of heads beside a width of 42
FAMILIES = {
    "t5 v1.0": {**AWKWARD, "encoder_layers": 2},
    "t5 v1.1": {**AWKWARD, "encoder_layers": 2, "gated": True},
    "mt5": {**AWKWARD, "encoder_layers": 2, "gated": True, "model_type": "mt5"},
    "llama": {**AWKWARD, "tie_word_embeddings": False},
    "llama, tied": {**AWKWARD, "tie_word_embeddings": True},
    "qwen3": {**AWKWARD, "heads": 6, "kv_heads": 2, "model_type": "qwen3"},
}


def write_family(family: str, folder: Path, **changes) -> Path:
    encodes = "t5" in family
    tokens = byte_tokenizer(VOCABULARY, append_eos=encodes)
    settings = {"layers": 2, **FAMILIES[family], **changes}
    write = write_t5 if encodes else write_llama
    return write(folder, vocab_size=VOCABULARY, tokenizer=tokens, **settings)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_draft_with_all_of_its_target_starts_as_its_target(
    family, prompts, tmp_path, monkeypatch
):
    """And what is saved of it is what transformers and the exported graphs compute."""
    monkeypatch.setattr(target_module, "_dtype", lambda _: torch.float32)
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


def test_an_own_head_is_trained(prompts, tmp_path):
    target, draft = write_family("t5 v1.1", tmp_path / "target"), tmp_path / "draft"
    distill(str(target), prompts, draft, dataclasses.replace(PLAN, layers=2, width=None, steps=4))
    head, table = (
        load_file(draft / "model.safetensors")[name] - load_file(target / "model.safetensors")[name]
        for name in ("lm_head.weight", "shared.weight")
    )
    assert abs(head).max() > 1e-3
    assert abs(head - table).max() > 1e-3


@pytest.mark.parametrize(
    ("family", "of", "width", "heads"),
    [
        ("t5 v1.1", {"heads": 6, "width": 64}, 32, (3, 3)),
        ("t5 v1.1", {"heads": 6, "width": 64}, 16, (2, 2)),
        ("qwen3", {"heads": 8, "kv_heads": 4, "width": 64}, 32, (4, 2)),
        ("qwen3", {"heads": 8, "kv_heads": 4, "width": 64}, 16, (2, 1)),
        ("llama", {"heads": 7, "width": 224}, 176, (4, 4)),  # not 6: transformers wants a divisor
    ],
)
def test_a_narrow_draft_has_its_share_of_the_targets_heads(family, of, width, heads, tmp_path):
    folder = write_family(family, tmp_path / "target", layers=1, **{"encoder_layers": 1, **of})
    model = (seq2seq if "t5" in family else causal)(folder).model
    config = untrained(model, layers=1, width=width).config
    kv_heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    assert (config.num_attention_heads, kv_heads) == heads
    assert config.head_dim == 16
    type(config).from_dict(config.to_dict())  # refuses what cannot be


def test_what_the_target_writes_starts_with_its_familys_token(prompts, tmp_path, monkeypatch):
    """Old configs name none; the exported graphs then start with the padding token."""
    monkeypatch.setattr(target_module, "_dtype", lambda _: torch.float32)
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


def untrained(target, **shape):
    return untrained_draft(
        target, encoder_layers=2, vocabulary=full_vocabulary(VOCABULARY), seed=0, **shape
    )


def test_a_draft_forgets_what_was_noted_of_its_targets_gguf_file(llama_folder):
    target = causal(llama_folder).model
    target.config.quantization_config = {"quant_method": "gguf"}
    target.config._model_name_or_path = "a name in the file"
    noted = untrained(target, layers=1, width=None).config.to_dict()
    assert not {"quantization_config", "_model_name_or_path"} & noted.keys()
    assert target.config.quantization_config


def test_a_draft_of_the_targets_width_starts_as_its_layers(llama_folder):
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


def test_a_draft_may_keep_the_targets_last_layers(llama_folder):
    target = causal(llama_folder).model
    draft = untrained(target, layers=2, width=None, keep=last_layers)
    theirs, ours = target.state_dict(), draft.state_dict()
    for mine, origin in ((0, 1), (1, 2)):
        name = "model.layers.{}.mlp.up_proj.weight"
        torch.testing.assert_close(ours[name.format(mine)], theirs[name.format(origin)])


def test_in_bf16_rotary_angles_stay_those_of_the_graphs(llama_folder):
    """Rounded to eight bits, a frequency is off by a radian some hundred positions on."""
    target = causal(llama_folder).model.to(torch.bfloat16)
    draft = on_device_of(target, untrained(target, layers=1, width=None))
    assert {parameter.dtype for parameter in draft.parameters()} == {torch.bfloat16}
    exact = causal(llama_folder).model.model.rotary_emb.inv_freq
    torch.testing.assert_close(draft.model.rotary_emb.inv_freq, exact, atol=0, rtol=0)


def test_a_full_disk_beside_the_output_says_where(llama_folder, prompts, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outputs_module, "write_examples", full)
    with pytest.raises(EdgespecError, match=r"the disk is full; .* kept in .*\.draft\.training"):
        distill(str(llama_folder), prompts, tmp_path / "draft", PLAN)


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534"),
        SafetensorError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        ),
    ],
)
def test_a_draft_that_finds_no_room_is_one_line_and_not_trained_again(
    error, llama_folder, prompts, tmp_path, monkeypatch
):
    def full(*_):
        raise error

    plan = dataclasses.replace(PLAN, steps=2)
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "_save", full)
        with pytest.raises(EdgespecError, match=r"the disk is full; .*\.draft\.training"):
            distill(str(llama_folder), prompts, tmp_path / "draft", plan)
    monkeypatch.delattr(run_module.Training, "_step")
    assert distill(str(llama_folder), prompts, tmp_path / "draft", plan).steps == 2


@pytest.mark.parametrize("file", ["vocabulary.pt", "minutes-written.txt"])
def test_what_a_full_disk_cut_off_is_not_read_again(
    file, llama_folder, prompts, tmp_path, monkeypatch
):
    save, write_text = torch.save, Path.write_text

    def cut_off(data, path, *rest, write, **options):
        if not Path(path).name.removeprefix(".").startswith(file):
            return write(data, path, *rest, **options)
        Path(path).write_bytes(b"")
        raise OSError(28, "No space left on device")

    def cut_off_text(path, text, *rest, **options):
        return cut_off(text, path, *rest, **options, write=lambda t, p, **o: write_text(p, t, **o))

    plan = dataclasses.replace(PLAN, vocabulary=90, steps=2)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", lambda *args: cut_off(*args, write=save))
        patch.setattr(Path, "write_text", cut_off_text)
        with pytest.raises(EdgespecError, match="the disk is full"):
            distill(str(llama_folder), prompts, tmp_path / "draft", plan)
    assert distill(str(llama_folder), prompts, tmp_path / "draft", plan).steps == 2


def test_a_narrow_drafts_layers_add_nothing_yet(t5_folder):
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


# --- budget and batches


def test_a_budget_of_steps_ends_and_its_rate_falls_to_zero():
    budget = Budget(minutes=None, steps=1000)
    rates = []
    for budget.steps in range(1001):
        rates.append(budget.rate(1.0))
    assert rates[0] == 0.01
    assert rates[200:500] == [1.0] * 300
    assert rates[-1] == 0
    assert budget.fraction == 1


def test_every_text_is_in_one_batch_and_no_batch_is_too_large():
    rng = random.Random(1)
    texts = [Text([1] * rng.randint(1, 30), [1] * rng.randint(1, 30)) for _ in range(200)]
    found = list(batches(texts, 128, rng))
    assert sorted(map(id, texts)) == sorted(id(text) for batch in found for text in batch)
    assert all(len(batch) == 1 or max(map(len, batch)) * len(batch) <= 128 for batch in found)


# --- whole runs


@pytest.mark.parametrize("kind", ["t5", "llama"])
@pytest.mark.parametrize("on_policy", [False, True])
def test_a_distilled_draft_agrees_more_and_makes_an_exact_pair(
    kind, on_policy, t5_folder, llama_folder, prompts, tmp_path
):
    target = t5_folder if kind == "t5" else llama_folder
    plan = dataclasses.replace(PLAN, on_policy=on_policy)
    found = distill(str(target), prompts, tmp_path / "draft", plan)
    assert found.after.sampled > found.before.sampled + 0.03
    export_pair(str(target), str(tmp_path / "draft"), tmp_path / "pair", threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    for prompt in ("green stone", "under seven"):
        drafted = pair.generate(prompt, gamma=3, draft="model", max_new_tokens=20)
        plain = pair.generate(prompt, draft=False, max_new_tokens=20)
        assert drafted.token_ids == plain.token_ids
    assert (found.known is None) == on_policy
    record = json.loads((tmp_path / "draft" / "distillation.json").read_text())
    assert record["result"]["after"] == dataclasses.asdict(found.after)


def test_a_distilled_eagle_agrees_more_and_makes_an_exact_pair(llama_folder, prompts, tmp_path):
    plan = dataclasses.replace(PLAN, eagle=True, width=None, vocabulary=200, steps=60)
    found = distill(str(llama_folder), prompts, tmp_path / "draft", plan)
    assert found.after.sampled > found.before.sampled + 0.03
    assert "hidden states" in (tmp_path / "draft" / "README.md").read_text()
    formats = ["fp32", "int8"]
    draft = str(tmp_path / "draft")
    export_pair(str(llama_folder), draft, tmp_path / "pair", draft_formats=formats, threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    assert pair.manifest.draft.variants["int8"].distance.kl < 0.1
    accepted = 0
    for prompt in ("green stone", "under seven", "Zürich 4711"):
        plain = pair.generate(prompt, draft=False, max_new_tokens=20)
        for kind, gamma in (("model", 3), ("both", "auto")):
            drafted = pair.generate(prompt, gamma=gamma, draft=kind, max_new_tokens=20)
            assert drafted.token_ids == plain.token_ids
            accepted += drafted.stats.accepted
    assert accepted > 0


def test_a_draft_that_knows_its_few_texts_by_heart_says_so(llama_folder, prompts, tmp_path):
    few = tmp_path / "few.txt"
    few.write_text("".join(prompts.read_text().splitlines(keepends=True)[:20]))
    draft = tmp_path / "draft"
    options = ["--layers", "2", "--steps", "200", "-n", "12", "--rate", "5e-3", "-o", str(draft)]
    run = CliRunner().invoke(main, ["distill", str(llama_folder), "--text", str(few), *options])
    assert run.exit_code == 0
    result = json.loads((draft / "distillation.json").read_text())["result"]
    assert result["known"] > result["after"]["greedy"] + 0.05
    assert f"greedy acceptance is {result['known']:.3f}: more prompts would help" in run.stderr
    assert f"{result['known']:.3f} (greedy)" in (draft / "README.md").read_text()


@pytest.mark.parametrize("kind", ["t5", "llama"])
def test_a_draft_with_some_of_the_tokens_makes_an_exact_pair(
    kind, t5_folder, llama_folder, prompts, tmp_path
):
    target = t5_folder if kind == "t5" else llama_folder
    plan = dataclasses.replace(PLAN, vocabulary=90)
    distill(str(target), prompts, tmp_path / "draft", plan)
    formats = ["fp32", "int8"]
    draft = str(tmp_path / "draft")
    export_pair(str(target), draft, tmp_path / "pair", draft_formats=formats, threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    assert pair.draft is not None
    assert pair.draft.vocab_size == 90
    assert pair.manifest.draft.variants["int8"].distance.kl < 0.1
    accepted = 0
    for prompt in ("green stone", "under seven", "Zürich 4711"):
        drafted = pair.generate(prompt, gamma=3, draft="model", max_new_tokens=20)
        plain = pair.generate(prompt, draft=False, max_new_tokens=20)
        assert drafted.token_ids == plain.token_ids
        accepted += drafted.stats.accepted
        pair.generate(prompt, gamma=3, draft="model", temperature=1.0, seed=1, max_new_tokens=20)
    assert accepted > 0


def test_such_a_draft_is_no_target_and_belongs_to_its_own(llama_folder, prompts, tmp_path):
    draft = tmp_path / "draft"
    plan = dataclasses.replace(PLAN, vocabulary=90, steps=2)
    distill(str(llama_folder), prompts, draft, plan)
    with pytest.raises(EdgespecError, match="cannot be a target"):
        export_pair(str(draft), None, tmp_path / "pair")
    file = draft / "draft_vocabulary.json"
    maps = json.loads(file.read_text())
    file.write_text(json.dumps({**maps, "inputs": [*maps["inputs"], 0]}))
    with pytest.raises(EdgespecError, match="pair the draft with its own target"):
        export_pair(str(llama_folder), str(draft), tmp_path / "pair")


@pytest.mark.parametrize("kind", [{"vocabulary": 90}, {"eagle": True}])
def test_no_draft_is_distilled_from_a_draft_that_needs_its_target(
    kind, llama_folder, prompts, tmp_path
):
    draft = tmp_path / "draft"
    distill(str(llama_folder), prompts, draft, dataclasses.replace(PLAN, steps=1, **kind))
    with pytest.raises(EdgespecError, match=r"is a draft that .*, so it cannot be a target"):
        distill(str(draft), prompts, tmp_path / "second", PLAN)


def test_the_same_seed_and_steps_give_the_same_bytes(llama_folder, prompts, tmp_path):
    plan = dataclasses.replace(PLAN, steps=6)
    for name in "ab":
        distill(str(llama_folder), prompts, tmp_path / name, plan)
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in "ab")
    assert one == other


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("t5", {"width": 32, "vocabulary": 90}),
        ("llama", {"width": 32}),
        ("llama", {"eagle": True, "width": None, "vocabulary": 200}),
    ],
)
def test_a_training_that_starts_from_a_draft_begins_where_that_ended(
    kind, shape, t5_folder, llama_folder, prompts, tmp_path
):
    target = str(t5_folder if kind == "t5" else llama_folder)
    first, second = tmp_path / "first", tmp_path / "second"
    plan = dataclasses.replace(PLAN, steps=40, **shape)
    one = distill(target, prompts, first, plan)
    other = distill(target, prompts, second, Plan(**{**LATER, "start": str(first)}))
    assert other.before.sampled == pytest.approx(one.after.sampled, abs=2e-3)  # kept in fp16
    assert one.before.sampled < one.after.sampled - 0.01
    assert other.draft_parameters == one.draft_parameters
    assert "weights of the draft first" in (second / "README.md").read_text()
    record = json.loads((second / "distillation.json").read_text())
    assert record["plan"]["start"] == "first"  # where it lies is nobody's concern
    names = {"config.json", "model.safetensors", "distillation.json", "tokenizer.json"}
    assert names <= {file.name for file in second.iterdir()}


def test_only_a_distilled_draft_of_the_same_target_can_be_started_from(
    llama_folder, t5_folder, prompts, tmp_path, monkeypatch
):
    with pytest.raises(UsageError, match="which is not a draft that edgespec distill wrote"):
        distill(str(llama_folder), prompts, tmp_path / "d", Plan(**LATER, start=str(llama_folder)))
    of_t5 = tmp_path / "of-t5"
    distill(str(t5_folder), prompts, of_t5, dataclasses.replace(PLAN, steps=1))
    record = json.loads((of_t5 / "distillation.json").read_text())
    record["plan"]["encoder_layers"] = None
    (of_t5 / "distillation.json").write_text(json.dumps(record))
    monkeypatch.delattr(outputs_module, "generate_with_distributions")  # which takes an hour
    with pytest.raises(UsageError, match="start from a draft of the same target"):
        distill(str(llama_folder), prompts, tmp_path / "d", Plan(**LATER, start=str(of_t5)))


def test_a_run_that_started_from_another_draft_is_not_gone_on_with(
    llama_folder, tmp_path, monkeypatch
):
    start = tmp_path / "start"
    start.mkdir()
    plan = dataclasses.replace(PLAN, start=str(start))
    source = resolve(str(llama_folder))
    empty = recipe_of(source, [[1]], plan)
    (start / "model.safetensors").write_bytes(b"weights")
    filled = recipe_of(source, [[1]], plan)
    assert filled != empty
    monkeypatch.chdir(tmp_path)
    assert recipe_of(source, [[1]], dataclasses.replace(plan, start="start")) == filled


@pytest.mark.parametrize("name", ["en-de-draft", "smollm2-draft"])
def test_the_shipped_drafts_can_be_started_from(name):
    folder = Path(__file__).parents[2] / "models" / name
    plan = with_shape_of_start(Plan(layers=7, steps=1, start=str(folder)))
    assert plan.layers == 1
    assert plan.eagle == (name == "smollm2-draft")


@pytest.mark.parametrize("option", [["--layers", "2"], ["--vocabulary", "90"], ["--eagle"]])
def test_a_shape_is_not_asked_for_beside_a_start(option, llama_folder, prompts, tmp_path):
    command = ["distill", str(llama_folder), "--text", str(prompts), "--steps", "1", "-o"]
    given = [*command, str(tmp_path / "draft"), "--start", str(tmp_path), *option]
    run = CliRunner().invoke(main, given)
    assert run.exit_code == 2
    message = f"{option[0]} is given with --start, whose shape is kept; leave it out"
    assert run.stderr == f"edgespec: {message}\n"


@pytest.mark.parametrize("eagle", [False, True])
def test_an_interrupted_run_goes_on_and_asks_the_target_no_more(
    llama_folder, prompts, tmp_path, monkeypatch, eagle
):
    folder = tmp_path / "draft"
    plan = dataclasses.replace(PLAN, eagle=eagle, steps=20)

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_module.Training, "_step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            distill(str(llama_folder), prompts, folder, plan)
    assert not folder.exists()
    with monkeypatch.context() as patch:
        patch.setattr(outputs_module, "generate_with_distributions", interrupt)
        patch.setattr(Features, "_compute", interrupt)
        longer = dataclasses.replace(plan, steps=plan.steps + 20)
        found = distill(str(llama_folder), prompts, folder, longer)
    assert found.steps == longer.steps
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("changed", ["words", "target"])
def test_an_interrupted_run_does_not_go_on_with_other_words_or_another_target(
    changed, llama_folder, prompts, tmp_path, monkeypatch
):
    target = tmp_path / "target"
    write_family("llama", target)
    with monkeypatch.context() as patch:
        patch.setattr(run_module.Training, "_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            distill(str(target), prompts, tmp_path / "draft", PLAN)
    if changed == "words":  # as many bytes
        prompts.write_text(prompts.read_text().replace("river", "delta"))
    else:
        write_family("llama", target, seed=1)
    monkeypatch.setattr(outputs_module, "generate_with_distributions", interrupted)
    with pytest.raises(KeyboardInterrupt):  # the target is asked again
        distill(str(target), prompts, tmp_path / "draft", PLAN)


def test_it_goes_on_with_another_release_and_more_time(llama_folder, monkeypatch):
    source = resolve(str(llama_folder))
    before = recipe_of(source, [[5, 6]], PLAN)
    monkeypatch.setattr(edgespec, "__version__", "9.9")
    assert recipe_of(source, [[5, 6]], dataclasses.replace(PLAN, steps=9)) == before
    assert recipe_of(source, [[6, 5]], PLAN) != before
    assert recipe_of(source, [[5, 6]], dataclasses.replace(PLAN, seed=1)) != before


def test_what_an_interrupted_run_left_aside_is_no_part_of_another_draft(
    llama_folder, prompts, tmp_path, monkeypatch
):
    plan = dataclasses.replace(PLAN, steps=1)
    some = dataclasses.replace(plan, vocabulary=90)
    with monkeypatch.context() as patch:
        patch.setattr(api_module, "write_card", interrupted)
        with pytest.raises(KeyboardInterrupt):
            distill(str(llama_folder), prompts, tmp_path / "draft", some)
    distill(str(llama_folder), prompts, tmp_path / "draft", plan)
    assert not (tmp_path / "draft" / "draft_vocabulary.json").exists()


@pytest.mark.parametrize("on_policy", [False, True])
def test_the_minutes_include_all_that_the_target_writes(
    on_policy, llama_folder, prompts, tmp_path, monkeypatch
):
    """After the held-out prompts twice, and twice after those that are trained on."""
    clock, asked = [0.0], []
    generate = TargetOutputs._generate

    def slow(*arguments):
        clock[0] += 60
        generate(*arguments)

    def training(*_, minutes, **__):
        asked.append(minutes)
        raise KeyboardInterrupt

    monkeypatch.setattr(outputs_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(TargetOutputs, "_generate", slow)
    monkeypatch.setattr(run_module, "Training", training)
    plan = dataclasses.replace(PLAN, steps=None, minutes=20.0, on_policy=on_policy)
    with pytest.raises(KeyboardInterrupt):
        distill(str(llama_folder), prompts, tmp_path / "draft", plan)
    assert asked == [18.0 if on_policy else 16.0]


def test_the_help_says_that_one_of_minutes_and_steps_is_required():
    words = CliRunner().invoke(main, ["distill", "--help"]).output.split()
    assert "this or --steps is required" in " ".join(words)


def test_examples_are_taken_from_all_over():
    texts = list(range(100))
    assert run_module._spread_examples(texts, 3) == [0, 50, 99]
    assert run_module._spread_examples(texts, 60)[-1] == 99
    assert run_module._spread_examples(texts[:2], 60) == [0, 1]
    assert run_module._spread_examples([], 60) == []


def test_a_finished_draft_survives_whatever_happens_to_the_next(
    llama_folder, prompts, tmp_path, monkeypatch
):
    folder = tmp_path / "draft"
    plan = dataclasses.replace(PLAN, steps=2)
    distill(str(llama_folder), prompts, folder, plan)
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(UsageError, match="holds a distilled draft already"):
        distill(str(llama_folder), prompts, folder, plan)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(api_module, "write_card", full)
    with pytest.raises(EdgespecError, match="the disk is full"):
        distill(str(llama_folder), prompts, folder, plan, replace=True)
    assert (folder / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"width": 40}, "width is 40; give a multiple of 16 below the target's, which is 64"),
        ({"width": 640}, "width is 640; .* which is 64, or leave it out"),
        ({"encoder_layers": 1}, "encoder_layers is 1; the target has no encoder"),
        ({"layers": 9}, "layers is 9; the target has 3"),
        ({"layers": 0}, "layers is 0"),
        ({"steps": None}, "give --minutes or --steps"),
        ({"minutes": 1.0}, "give --minutes or --steps"),
        ({"minutes": float("nan"), "steps": None}, "minutes is nan; give a number above 0"),
        ({"minutes": float("inf"), "steps": None}, "minutes is inf"),
        ({"rate": -1.0}, "rate is -1.0; give a number above 0"),
        ({"rate": float("nan")}, "rate is nan"),
        ({"positions": 0}, "positions is 0; give 1 or more"),
        ({"loss": "mse"}, "loss is 'mse'; give one of: kl, tv"),
        ({"chat": True}, "has no chat format"),
        ({"eagle": True, "on_policy": True}, "is not trained on_policy"),
    ],
)
def test_a_plan_that_cannot_be_is_one_line_before_the_target_is_loaded(
    changes, words, llama_folder, prompts, tmp_path, monkeypatch
):
    monkeypatch.delattr(run_module, "open_target")
    with pytest.raises(UsageError, match=words) as error:
        distill(str(llama_folder), prompts, tmp_path / "d", dataclasses.replace(PLAN, **changes))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"encoder_layers": 2}, r"encoder_layers is 2; the target has 1: give fewer"),
        ({"layers": 3}, r"encoder_layers is 3 \(as many as layers\); the target has 1"),
    ],
)
def test_no_layer_of_an_encoder_is_taken_twice(changes, words, prompts, tmp_path, monkeypatch):
    monkeypatch.delattr(run_module, "open_target")
    target = write_family("t5 v1.0", tmp_path / "target", layers=3, encoder_layers=1)
    with pytest.raises(UsageError, match=words):
        distill(str(target), prompts, tmp_path / "d", dataclasses.replace(PLAN, **changes))


def test_a_t5_shows_no_hidden_states(t5_folder, prompts, tmp_path):
    with pytest.raises(UsageError, match="needs a Llama-like target; leave eagle out"):
        distill(str(t5_folder), prompts, tmp_path / "d", dataclasses.replace(PLAN, eagle=True))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has no text"),
        (b"one\ntwo\none\n", "has 2 different prompts"),
        (b"\xff\xfe\n" * 40, "is not UTF-8"),
        (None, "cannot be read"),
    ],
)
def test_a_text_that_cannot_be_used_is_one_line(content, words, llama_folder, tmp_path):
    file = tmp_path / "prompts.txt"
    if content is not None:
        file.write_bytes(content)
    arguments = ["distill", str(llama_folder), "--text", str(file), "-o", str(tmp_path / "d")]
    result = CliRunner().invoke(main, [*arguments, "--steps", "1"])
    assert result.exit_code == 2
    assert words in result.output
    assert result.output.count("\n") == 1


def test_a_target_without_logits_is_one_line(llama_folder, prompts, tmp_path):
    folder = tmp_path / "bert"
    folder.mkdir()
    for file in llama_folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "bert"}))
    with pytest.raises(EdgespecError, match="model_type is 'bert'"):
        distill(str(folder), prompts, tmp_path / "d", PLAN)


def test_missing_memory_is_one_line(llama_folder, prompts, tmp_path, monkeypatch):
    def greedy(*_):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes")

    monkeypatch.setattr(run_module.Training, "_step", greedy)
    with pytest.raises(EdgespecError, match="not enough memory"):
        distill(str(llama_folder), prompts, tmp_path / "d", PLAN)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc is another")
@pytest.mark.parametrize(("call", "kept"), [("keep_freed_memory()", True), ("", False)])
def test_freed_memory_stays_in_the_process(call, kept):
    """A freed gigabyte that goes back to the system is paid for again at the next step."""
    script = f"""
from edgespec_distill.training.memory import keep_freed_memory
{call}
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
pages = lambda: int(open("/proc/self/statm").read().split()[1])
before = pages()
piece = libc.malloc(2**28)
ctypes.memset(ctypes.c_void_p(piece), 1, 2**28)
libc.free(piece)
print((pages() - before) * 4096)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (int(ran.stdout) > 2**27) == kept


# --- the model card


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (Plan(layers=1), "| shape | 1 layer; "),
        (Plan(layers=2, width=64), "| shape | 2 layers, width 64; "),
        (Plan(layers=1, encoder_layers=3), "| shape | 3 encoder layers and 1 decoder layer; "),
        (Plan(layers=2, encoder_layers=1), "| shape | 1 encoder layer and 2 decoder layers; "),
    ],
)
def test_the_card_counts_layers_and_names_the_licence(plan, words):
    worth = Acceptance(0.5, 0.5)
    card = _card("T", plan, Distillation(worth, worth, None, 9, 4, 90, 2, 1.0, 100, 10))
    assert words in card
    assert "under the target's licence" in " ".join(card.split())


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (Source(Path("build/x/Model.Q4_1.gguf"), "build/x/Model.Q4_1.gguf"), "Model.Q4_1.gguf"),
        (Source(Path("build/x/target"), "build/x/target/"), "target"),
        (Source(Path("/cache/0a1b"), "google/flan-t5-small"), "google/flan-t5-small"),
        (Source(Path("/cache/0a1b"), "t5-xxl → google/t5-v1_1-xxl"), "google/t5-v1_1-xxl"),
    ],
)
def test_a_card_is_titled_by_a_name_not_by_a_place(source, name):
    assert _name(source) == name
