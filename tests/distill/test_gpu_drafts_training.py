"""Claim: a draft learns on a GPU what edgespec distill would teach it, and can be exported then."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

import edgespec
from depth import one_in
from eagle_checkpoints import write_eagle
from edgespec_distill.data.draft_vocabulary import frequent_vocabulary
from edgespec_distill.data.examples import Text
from edgespec_distill.models.reading.eagle_module import hidden_states
from edgespec_distill.training.budget import Budget
from edgespec_distill.training.loss import forward_kl, total_variation
from edgespec_export.export_pair import export_pair
from gpu_drafts import module, packed, program, write_packable

judging, packed_target, programs, started, token_files, training, training_batch, writing = map(
    module,
    (
        "judging",
        "packed_target",
        "program",
        "started_draft",
        "token_files",
        "training",
        "training_batch",
        "writing",
    ),
)
TOKENS, NEW_TOKENS = 200, 180
PROMPTS = [[65 + n, 66, 67 + n % 5, *range(70, 70 + n % 7)] for n in range(24)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_packable(tmp_path_factory.mktemp("llama") / "target", "llama")


@pytest.fixture(scope="module")
def file(folder, tmp_path_factory):
    return packed(folder, tmp_path_factory.mktemp("packed"))


@pytest.fixture(scope="module")
def model(file):
    return packed_target.open_target(file, "cpu", torch.float32)


@pytest.fixture(scope="module")
def texts(model):
    return writing.greedy_texts(model, PROMPTS, 20)


@pytest.fixture(scope="module")
def vocabulary(model, texts):
    table = model.get_input_embeddings().weight
    return frequent_vocabulary([text.output for text in texts], [1], NEW_TOKENS, table)


@pytest.fixture(params=[False, True], ids=["own tables", "target's tables"])
def start(request, folder, tmp_path):
    """A finished draft of 200 tokens."""
    write_eagle(folder, tmp_path / "start", tokens=TOKENS, target_tables=request.param)
    plan = {"layers": 1, "eagle": True, "vocabulary": TOKENS, "target_tables": request.param}
    record = {"target": "tiny", "plan": plan}
    (tmp_path / "start" / "distillation.json").write_text(json.dumps(record))
    return tmp_path / "start"


def reader(model, vocabulary, draft):
    return partial(
        training_batch.batch_of, model, vocabulary=vocabulary, layers=draft.target_layers
    )


@pytest.fixture
def draft(start, model, vocabulary):
    return started.started_draft(start, vocabulary, model)


def test_a_start_keeps_what_it_learnt_and_gets_new_rows_from_the_target(
    start, draft, model, vocabulary
):
    stored = load_file(start / "model.safetensors")
    maps = json.loads((start / "draft_vocabulary.json").read_text())
    new = dict(draft.named_parameters())
    tables = ("model.embed_tokens.weight", "lm_head.weight")
    for name in stored.keys() - set(tables):
        assert torch.equal(new[name], stored[name]), name
    place = {token: row for row, token in enumerate(maps["outputs"])}
    for name in tables:
        own, target = stored.get(name), model.get_parameter(name)
        for row, token in enumerate(vocabulary.outputs.tolist()):
            keeps = own is not None and token in place
            assert torch.equal(new[name][row], own[place[token]] if keeps else target[token])
    shared = sum(token in place for token in vocabulary.outputs.tolist())
    assert 0 < shared < NEW_TOKENS
    assert draft.config.vocab_size == NEW_TOKENS
    assert vocabulary.outputs[draft.config.eos_token_id] == 1


@torch.no_grad()
def test_a_batch_has_the_targets_distribution_before_each_token_of_an_output(
    model, draft, texts, vocabulary
):
    chosen = [texts[0], texts[6], Text([9], [5, 6])]
    batch = reader(model, vocabulary, draft)(chosen)
    tokens, since, p, features = [], [], [], batch.features
    for row, text in enumerate(chosen):
        whole = model(torch.tensor([[*text.prompt, *text.output]]), output_hidden_states=True)
        first = len(text.prompt) - 1
        found = whole.logits[0, first : first + len(text.output)].softmax(-1)
        p.append(found[:, vocabulary.outputs])
        tokens += text.output
        since += range(len(text.output))
        states = whole.hidden_states[draft.target_layers[0]][0, : len(text) - 1]
        ours = features[row, : len(text) - 1, : states.shape[1]]
        torch.testing.assert_close(ours, states, rtol=1e-3, atol=1e-3)
    assert batch.tokens.tolist() == tokens
    assert batch.since.tolist() == since
    torch.testing.assert_close(batch.p, torch.cat(p), rtol=1e-3, atol=1e-5)


def test_the_losses_are_edgespec_distills_but_for_the_entropy():
    generator = torch.Generator().manual_seed(0)
    p = torch.randn(7, 30, generator=generator).softmax(1)[:, :20]  # 10 tokens the draft lacks
    q_logits = 2 * torch.randn(7, 20, generator=generator)
    given = p.log(), torch.arange(20).expand(7, -1), q_logits
    entropy = -(p * p.log()).sum(1).mean()
    for tv in (0.0, 0.5, 1.0):
        found = training.losses(p, q_logits, torch.tensor(tv)).mean()
        wanted = (1 - tv) * (forward_kl(*given) + entropy) + tv * total_variation(*given)
        torch.testing.assert_close(found, wanted)


def test_a_prediction_counts_where_a_round_reaches_it(draft, model, texts, vocabulary):
    """As of edgespec distill's losses: the n-th lacks the first n tokens of each output."""
    tv, heat = torch.tensor(0.3), 0.7
    chosen = [texts[0], texts[6], Text([9], [5])]
    batch = reader(model, vocabulary, draft)(chosen, temperature=heat)
    total = 0.0
    predictions = hidden_states(draft, batch.ids, batch.features)
    for skipped, (weight, hidden) in enumerate(zip((1, 0.75, 0.5), predictions, strict=False)):
        at = batch.at[batch.since >= skipped]
        logits = hidden.flatten(0, 1)[at] @ draft.lm_head.weight.T / heat
        total += weight * training.losses(batch.p[batch.since >= skipped], logits, tv).mean()
    torch.testing.assert_close(training.round_loss(draft, batch, tv, heat), total)


def test_probabilities_are_those_at_the_temperature(draft, model, texts, vocabulary):
    read = reader(model, vocabulary, draft)
    cool, warm = read([texts[0]], temperature=0.5), read([texts[0]])
    logits = model(torch.tensor([[*texts[0].prompt, *texts[0].output[:-1]]])).logits[0]
    rows = logits[len(texts[0].prompt) - 1 :]
    for found, heat in ((cool, 0.5), (warm, 1.0)):
        wanted = (rows / heat).softmax(-1)[:, vocabulary.outputs]
        torch.testing.assert_close(found.p, wanted, rtol=1e-3, atol=1e-5)


def test_compiled_losses_are_the_same_for_any_number_of_rows():
    """On the processor; the GPU compiles the same functions."""
    compiled = torch.compile(training.losses, dynamic=True)
    generator = torch.Generator().manual_seed(0)
    for rows in (7, 12, 5):
        p = torch.randn(rows, 40, generator=generator).softmax(1)
        q_logits = torch.randn(rows, 40, generator=generator)
        found = []
        for losses in (compiled, training.losses):
            leaf = q_logits.clone().requires_grad_()
            values = losses(p, leaf, torch.tensor(0.3))
            values.sum().backward()
            found += [values.detach(), leaf.grad]
        torch.testing.assert_close(found[0], found[2])
        torch.testing.assert_close(found[1], found[3])


@pytest.mark.parametrize("done", [0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0])
def test_total_variation_comes_between_a_fifth_and_a_half(done):
    wanted = np.interp(done, [0.2, 0.5], [0.0, 0.8])
    assert training.Objective(most_tv=0.8).tv_share(done) == pytest.approx(wanted)
    falls = np.interp(done, [0.4, 1.0], [1.0, 0.0])
    assert training.rate_at(3.0, 1000, done) == pytest.approx(3 * falls)
    assert training.rate_at(3.0, 49, 0.0) == pytest.approx(1.5), "it rises over 100 steps"


@one_in(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_few_steps_lower_the_loss(file, start, texts, vocabulary, dtype):
    model = packed_target.open_target(file, "cpu", dtype)
    draft = started.started_draft(start, vocabulary, model)
    assert draft.dtype == dtype
    read = reader(model, vocabulary, draft)
    judge = partial(judging.judged, draft, texts, read, vocabulary.outputs, 2048)
    shares = torch.tensor([0.0, 1.0])
    with torch.no_grad():
        before = [training.round_loss(draft, read(texts), tv, 1.0).item() for tv in shares]
    first = judge()
    weights = training.train(
        draft, texts, read, Budget(minutes=None, steps=30), positions=400, rate=5e-3
    )
    with torch.no_grad():
        after = [training.round_loss(draft, read(texts), tv, 1.0).item() for tv in shares]
    assert after[0] < before[0] - 0.1
    assert after[1] < before[1] - 0.1
    assert judge().agreement[0] > first.agreement[0]
    assert judge().alpha > first.alpha + 0.02
    assert all(weights[name].dtype == torch.float32 for name in weights)


def test_a_training_is_told_its_temperature_share_and_order(model, start, texts, vocabulary):
    """Each of them changes what is read or learnt, and a second run is the first one."""

    def trained(objective, seed):
        draft, read_at, order = started.started_draft(start, vocabulary, model), [], []

        def read(group, temperature):
            read_at.append(temperature)
            order.append([text.output for text in group])
            return reader(model, vocabulary, draft)(group, temperature=temperature)

        budget = Budget(minutes=None, steps=4)
        weights = training.train(draft, texts, read, budget, 100, 1e-3, objective, seed)
        assert set(read_at) == {objective.temperature}
        return weights["model.norm.weight"].clone(), order

    usual, order = trained(training.Objective(), 0)
    again, _ = trained(training.Objective(), 0)
    assert torch.equal(usual, again)
    assert not torch.equal(usual, trained(training.Objective(most_tv=0.0), 0)[0])
    assert not torch.equal(usual, trained(training.Objective(temperature=0.5), 0)[0])
    assert trained(training.Objective(), 1)[1] != order


def test_a_round_is_right_as_long_as_each_of_its_predictions_is(monkeypatch):
    """Text "a b c d" and a draft whose predictions are known."""
    tokens = torch.tensor([1, 2, 3, 4, 5, 6])  # of two outputs, of four and of two tokens
    since = torch.tensor([0, 1, 2, 3, 0, 1])
    said = torch.tensor([[1, 9, 3, 4, 5, 6], [9, 2, 9, 9, 9, 6], [9, 9, 3, 9, 9, 9]])
    batch = training_batch.Batch(
        torch.zeros(2, 4),
        torch.zeros(2, 4, 1),
        torch.tensor([0, 1, 2, 3, 4, 5]),
        since,
        tokens,
        torch.full((6, 10), 0.1),
    )
    monkeypatch.setattr(
        judging,
        "hidden_states",
        lambda *_: iter([torch.eye(10)[torch.cat([row, row[:2]])].view(2, 4, 10) for row in said]),
    )
    draft = type("Draft", (), {"lm_head": type("Head", (), {"weight": 50 * torch.eye(10)})})
    found = judging.judged(
        draft, [Text([0], [1])], lambda _: batch, torch.arange(10), positions=100
    )
    # Rounds begin at each token; those of two predictions at 4 of them, those of three at 2.
    assert found.agreement == (5 / 6, 2 / 4, 1 / 2)
    assert found.alpha == pytest.approx(0.1, abs=1e-3)


@pytest.fixture
def prompts(folder, tmp_path, monkeypatch):
    """What prompts.py writes."""
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(["Judge!", *(f"Say {n} words." for n in range(40))]) + "\n")
    judges = [("chat", "Judge!"), ("code", "def f():")]
    out = tmp_path / "prompts.npz"
    program("prompts", monkeypatch, folder, out, lines, judges=lambda: judges)
    return out


def test_texts_are_read_as_they_were_written(tmp_path):
    kinds = {
        token_files.TRAINED_ON: [Text([1], [2, 3]), Text([70000, 5, 6], [1])],
        "chat": [Text([7, 8], [9])],
    }
    token_files.save_texts(tmp_path / "texts.npz", "this target", kinds)
    assert token_files.load_texts(tmp_path / "texts.npz", "this target") == kinds
    with pytest.raises(SystemExit, match="written by another target"):
        token_files.load_texts(tmp_path / "texts.npz", "another")


def test_a_file_of_another_kind_is_named_with_what_makes_the_right_one(tmp_path, prompts):
    texts, other = tmp_path / "texts.npz", tmp_path / "other.npz"
    token_files.save_texts(texts, "target", {"": [Text([1], [2])]})
    other.write_text("no archive")
    for file in (texts, other):
        with pytest.raises(SystemExit, match=r"make it with prompts\.py"):
            token_files.Prompts.load(file)
    for file in (prompts, other):
        with pytest.raises(SystemExit, match=r"make it with write\.py"):
            token_files.load_texts(file, "target")


@pytest.mark.parametrize(
    ("option", "value"),
    [("--temperature", 0), ("--tv", 2), ("--seconds", -1), ("--steps", 0), ("--vocabulary", 2)],
)
def test_numbers_out_of_range_are_refused_by_name(option, value, tmp_path, monkeypatch, capsys):
    files = [tmp_path / name for name in ("target", "start", "texts", "out")]
    with pytest.raises(SystemExit):
        program("train", monkeypatch, *files, option, value)
    assert f"argument {option}: " in capsys.readouterr().err


def test_errors_are_one_line(tmp_path, monkeypatch):
    files = [tmp_path / name for name in ("target", "start", "texts", "out")]
    train = partial(program, "train", monkeypatch, *files)
    with pytest.raises(SystemExit, match=r"^error: .*No such file.*target'$"):
        programs.run(train)


def test_prompts_that_judge_are_not_trained_on(folder, prompts):
    found = token_files.Prompts.load(prompts)
    assert len(found.trained_on) == 40
    assert [kind for kind, _ in found.judges] == ["chat", "code"]
    assert all(prompt not in found.trained_on for _, prompt in found.judges)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    before, after = (
        tokenizer.decode(tokens, skip_special_tokens=False)
        for tokens in (found.before_message, found.after_message)
    )
    assert (before, after) == ("[user]", "</s>[a]")


@one_in(2)
def test_the_finished_folder_is_exported_and_drafts(
    folder, file, start, prompts, tmp_path, monkeypatch
):
    written, trained, finished = (tmp_path / name for name in ("texts.npz", "trained", "finished"))
    program("write", monkeypatch, file, prompts, written, "--seconds", 0.1, "--own", 8)
    options = ["--steps", 2, "--batch", 400, "--vocabulary", NEW_TOKENS]
    program("train", monkeypatch, file, start, written, trained, *options)
    program("finish", monkeypatch, start, trained, finished)
    record = json.loads((finished / "distillation.json").read_text())
    assert record["plan"]["vocabulary"] == NEW_TOKENS
    assert record["plan"]["start"] == "start"
    assert record["on_a_gpu"]["steps"] == 2
    assert record["on_a_gpu"]["after"].keys() == {"held out", "chat", "code"}
    export_pair(
        str(folder),
        str(finished),
        tmp_path / "pair",
        target_formats=["fp32"],
        draft_formats=["fp32"],
        measure=False,
    )
    pair = edgespec.load(tmp_path / "pair", threads=1)
    prompt = [65, 66, 67]
    alone, drafted = (
        pair.generate(prompt, max_new_tokens=24, ignore_eos=True, **how)
        for how in ({"draft": False}, {"draft": "model", "gamma": 3})
    )
    assert list(drafted.token_ids) == list(alone.token_ids)
    assert drafted.stats.drafted > 0
