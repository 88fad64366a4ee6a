"""Claim: tuning measures every exact variant, finds the fastest, and generation then uses it.

The tiny pair's times mean nothing; what is checked is that all ways are tried, that what is written
is read, that bad files are refused, and that a target that is not exact is left alone.
"""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

import edgespec
from depth import deep, one_in
from edgespec.artifact.manifest import read_manifest, write_manifest
from edgespec.cli.main import main
from edgespec.core.decode import Round
from edgespec.core.distribution_options import Sampling
from edgespec.core.stats import Stats, counted
from edgespec.costs.cost_model import Costs
from edgespec.measure import remaining
from edgespec.measure import tune as tune_module
from edgespec.measure.bench import synthetic_rule
from edgespec.measure.round_costs import round_costs
from edgespec.measure.tune_result import Trial, Tuning
from edgespec.pair.opening.invariance_cache import INVARIANCE_FILE
from edgespec.pair.opening.profile import PROFILE, read_profile, write_profile
from edgespec_export.export_pair import export_pair
from logged import logged_lines
from profiles import profile

TEXTS = "\n".join(["a small text", "another one"])


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text(TEXTS)
    return path


def tuned(pair, text, *options):
    return run("tune", pair, "--text", text, "-n", 12, "--threads", 1, *options)


def test_every_way_is_tried_and_the_fastest_is_written(own_pair, text):
    result = tuned(own_pair, text, "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    ways = [(row["target_format"], row["draft_format"]) for row in data["trials"]]
    assert ways == [("fp32", None), ("fp32", None), ("fp32", "fp32")]
    speeds = [row["tokens_per_second"] for row in data["trials"]]
    assert data["best"]["tokens_per_second"] == max(speeds)
    assert dataclasses.asdict(read_profile(own_pair, read_manifest(own_pair))) == data["profile"]
    for row in data["trials"]:
        assert row["kind"] != "none" or row["gamma"] == 0
        assert row["adaptive"] > 0
        assert len(row["costs"]["verify"]) in (1, 17)


def test_a_quick_run_has_two_short_texts_on_the_processor(own_pair, text, monkeypatch):
    measure, asked = tune_module.tune, []

    def recorded(folder, prompts, **options):
        asked.append((list(prompts), options))
        return measure(folder, prompts, **options)

    monkeypatch.setattr(tune_module, "tune", recorded)
    text.write_text("\n".join([*TEXTS.splitlines(), "a third"]))
    assert run("tune", own_pair, "--text", text, "--threads", 1, "--quick").exit_code == 0
    ((prompts, options),) = asked
    assert prompts == TEXTS.splitlines()
    assert options["max_new_tokens"] == 32
    assert options["providers"] == ("cpu",)


def test_what_is_left_of_a_measurement_is_said_every_few_seconds(monkeypatch):
    clock = iter([0.0, 1.0, 4.0, 5.0, 200.0, 250.0])
    monkeypatch.setattr(remaining.time, "monotonic", lambda: next(clock))
    with logged_lines() as lines:
        left = remaining.Remaining(5)
        for _ in range(5):
            left.part_done()
    assert lines == ["2 of 5 done, about 6 s left", "4 of 5 done, about 50 s left"]


def test_the_table_says_what_to_do(own_pair, text):
    said = tuned(own_pair, text, "--dry-run", "--threads", 2).stdout
    *_, result, threads = said.splitlines()
    assert result.startswith(("best: target fp32, draft ", "do not speculate here: "))
    rate = r"\d+\.\d"
    assert re.fullmatch(rf"threads: [12] \({rate} tokens/s; {rate} with [12]\)", threads)
    assert read_profile(own_pair, read_manifest(own_pair)) is None


@deep
def test_a_plot_is_drawn(own_pair, text, tmp_path):
    pytest.importorskip("matplotlib")
    result = tuned(own_pair, text, "--dry-run", "--plot", tmp_path / "curves.png")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_generation_uses_the_profile(own_pair):
    write_profile(profile(), own_pair)
    pair = edgespec.load(own_pair)
    assert list(pair.costs["model"].verify[:4]) == [1.0, 1.1, 1.2, 1.3]
    result = pair.generate("text", max_new_tokens=20)
    assert result.stats.drafted > 0
    assert len(result.stats.evaluated_at) <= 3
    settings = result.settings
    assert (settings.draft, settings.draft_format, settings.gamma) == ("model", "fp32", 3)


def test_a_short_cost_curve_is_extrapolated_and_a_long_one_is_cut_at_the_largest_exact_call(
    own_pair,
):
    for verify in ([1.0, 1.1, 1.2, 1.3], [1.0 + 0.1 * m for m in range(40)]):
        write_profile(profile(verify=verify, gamma="auto"), own_pair)
        pair = edgespec.load(own_pair)
        for costs in pair.costs.values():
            assert costs.verify == pytest.approx([1.0 + 0.1 * m for m in range(17)])
        assert pair.generate("text", max_new_tokens=20, gamma=16).token_ids
        with pytest.raises(edgespec.UsageError, match="at most 16"):
            pair.generate("text", gamma=17)


def test_a_profile_of_another_machine_is_not_used_and_a_warning_says_so(own_pair):
    write_profile(profile(machine="0" * 64, verify=[1.0, 9.0], gamma=1), own_pair)
    with logged_lines() as lines:
        pair = edgespec.load(own_pair)
    assert "measured on another machine" in lines[0]
    assert pair.costs["model"].verify[1] < 2


def test_a_profile_says_nothing_about_other_threads_or_formats(own_pair):
    write_profile(profile(verify=[1.0, 9.0], gamma=1), own_pair)
    assert edgespec.load(own_pair).costs["model"].verify[1] == 9.0
    assert edgespec.load(own_pair, threads=2).costs["model"].verify[1] < 2


def test_a_profile_of_prompt_lookup_does_not_make_the_draft_model_free(own_pair):
    guessed = edgespec.load(own_pair).costs["model"]
    write_profile(profile(draft="lookup", draft_format=None, draft_cost=0.0), own_pair)
    costs = edgespec.load(own_pair, threads=1).costs
    assert costs["model"] == guessed
    assert list(costs["lookup"].verify[:4]) == [1.0, 1.1, 1.2, 1.3]


def test_inspect_shows_what_tuning_found(own_pair):
    write_profile(profile(), own_pair)
    assert "tuned: target fp32, draft model fp32, γ 3, 1 threads" in run("inspect", own_pair).stdout
    assert json.loads(run("inspect", own_pair, "--json").stdout)["profile"]["gamma"] == 3


@one_in(2)
@pytest.mark.parametrize(
    "changes",
    [
        {"verify": []},
        {"verify": {}},
        {"verify": [1.0, "x"]},
        {"verify": [1.0, -1.0], "gamma": "auto"},
        {"verify": [1.0, 0.0], "gamma": "auto"},
        {"verify": [1.0, float("inf")], "gamma": "auto"},
        {"verify": [float("nan"), 1.0], "gamma": "auto"},
        {"draft_cost": None},
        {"draft_cost": -1.0},
        {"threads": "2"},
        {"threads": 0},
        {"gamma": True},
        {"gamma": 2.0},
        {"gamma": 4},
        {"target_format": ["fp32"]},
        {"draft": "oracle"},
    ],
    ids=str,
)
def test_a_profile_with_an_impossible_value_is_not_used_and_a_warning_says_so(own_pair, changes):
    write_profile(profile(**changes), own_pair)
    with logged_lines() as lines:
        pair = edgespec.load(own_pair, threads=1)
    (line,) = lines
    assert "is damaged" in line
    assert "tune the pair again" in line
    assert pair.generate("text", max_new_tokens=4).settings.gamma == "auto"


@pytest.mark.parametrize("changes", [{"target_format": "int8"}, {"draft_format": "int8"}], ids=str)
def test_a_profile_of_another_export_is_not_used_and_a_warning_says_so(own_pair, changes):
    write_profile(profile(**changes), own_pair)
    with logged_lines() as lines:
        edgespec.load(own_pair, threads=1)
    assert [PROFILE in line for line in lines] == [True]


def test_a_profile_in_other_words_about_the_machine_is_used(own_pair):
    write_profile(profile(measured_on="this very machine"), own_pair)
    with logged_lines() as lines:
        pair = edgespec.load(own_pair)
    assert not lines
    assert list(pair.costs["model"].verify[:4]) == [1.0, 1.1, 1.2, 1.3]


def trial(**changes) -> Trial:
    usual = {
        "target_format": "int8",
        "draft_format": "int8",
        "kind": "model",
        "provider": "cpu",
        "draft_provider": "cpu",
        "threads": 1,
        "costs": Costs([1.0, 1.1], 0.1),
        "step_ms": 1.0,
        "acceptance": 0.5,
        "gamma": 3,
        "predicted": 1.3,
        "measured": 1.3,
        "adaptive": 1.4,
        "tokens_per_second": 100.0,
    }
    return Trial(**{**usual, **changes})


@pytest.mark.parametrize(
    ("changes", "draft", "gamma", "speedup"),
    [
        ({}, "both", "auto", 1.4),
        ({"adaptive": 1.28}, "both", "auto", 1.28),  # it follows other texts than these, too
        ({"adaptive": 1.2}, "model", 3, 1.3),
        ({"kind": "lookup"}, "lookup", "auto", 1.4),
        ({"kind": "none", "gamma": 0, "measured": 1.0, "adaptive": 1.0}, "none", "auto", 1.0),
    ],
)
def test_the_profile_has_the_faster_of_a_fixed_gamma_and_auto(changes, draft, gamma, speedup):
    best = trial(**changes)
    profile = Tuning.of([best]).profile()
    assert (profile.draft, profile.gamma, best.speedup) == (draft, gamma, speedup)


def test_a_tuned_gamma_is_the_default_of_the_tuned_setting_alone(own_pair):
    write_profile(profile(draft="model", gamma=1), own_pair)
    stats = edgespec.load(own_pair).generate("text", max_new_tokens=20).stats
    assert len(stats.evaluated_at) == 1
    write_profile(profile(draft="none"), own_pair)
    pair = edgespec.load(own_pair, threads=2)
    pair.use_costs(dict.fromkeys(("model", "lookup"), Costs([1.0, 1.0, 1.0], 0.01)))
    assert pair.generate("text", max_new_tokens=8).stats.drafted > 0


def test_a_profile_without_a_draft_is_followed_unless_a_draft_is_asked_for(own_pair):
    write_profile(profile(draft="none", gamma=0), own_pair)
    pair = edgespec.load(own_pair)
    assert pair.generate("text", max_new_tokens=8).stats.drafted == 0
    assert pair.generate("text", max_new_tokens=8, draft="model", gamma=2).stats.drafted > 0
    assert pair.generate("text", max_new_tokens=8, gamma=2).stats.drafted > 0


@one_in(2)
@pytest.mark.parametrize("damage", ["{", '{"gamma": 3}', "[]"])
def test_a_damaged_profile_is_one_line_and_the_text_comes(own_pair, damage):
    expected = run("generate", own_pair, "text").stdout
    (own_pair / PROFILE).write_text(damage)
    result = run("generate", own_pair, "text")
    assert result.exit_code == 0
    assert result.stdout == expected
    assert "is damaged" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_target_that_is_not_exact_is_not_tuned(own_pair, text):
    manifest = read_manifest(own_pair)
    variant = manifest.target.variants["fp32"]
    wrong = dataclasses.replace(variant.row_invariance, is_row_invariant=False)
    variants = {"fp32": dataclasses.replace(variant, row_invariance=wrong)}
    target = dataclasses.replace(manifest.target, variants=variants)
    write_manifest(dataclasses.replace(manifest, target=target), own_pair)
    (own_pair / INVARIANCE_FILE).unlink()
    result = tuned(own_pair, text)
    assert result.exit_code == 2
    assert "is exact where it was tried" in result.stderr


def test_an_empty_text_is_one_line(own_pair, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    result = tuned(own_pair, tmp_path / "empty.txt")
    assert result.exit_code == 2
    assert "has no text" in result.stderr


def test_row_invariance_left_out_at_export_is_measured_when_the_pair_is_first_used(
    tiny_checkpoints, tmp_path
):
    target, draft = tiny_checkpoints
    folder = tmp_path / "pair"
    assert run("export", target, draft, "-o", folder, "--no-measure").exit_code == 0
    assert "not measured yet" in run("inspect", folder).stdout
    first = run("generate", folder, "text", "--gamma", "2", "-n", "4")
    assert first.exit_code == 0
    assert "testing whether" in first.stderr
    assert run("generate", folder, "text", "--gamma", "2", "-n", "4").stderr == ""


def test_a_draft_that_is_always_right_has_a_cost_for_every_gamma(tiny_checkpoints, tmp_path):
    target, _ = tiny_checkpoints
    export_pair(str(target), str(target), tmp_path / "pair", threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    costs = round_costs(pair, [pair.encode("a text")], "model", Sampling()).costs
    assert len(costs.verify) == 17
    assert min(costs.verify) > 0


# --- bench ---------------------------------------------------------------------------------------


def test_bench_compares_every_way_with_plain_decoding(own_pair, text):
    result = run("bench", own_pair, "--text", text, "-n", 12, "--gamma", "2", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert [row["way"] for row in rows] == ["plain", "lookup, γ 2", "model, γ 2", "both, γ 2"]
    assert rows[0]["ratio"] == 1
    assert not any(row["synthetic"] for row in rows)


@pytest.mark.parametrize("command", ["bench", "tune"])
def test_texts_of_one_token_are_nothing_to_time(own_pair, text, command):
    manifest = read_manifest(own_pair)
    every = tuple(range(manifest.target.vocab_size))  # any token ends a text
    write_manifest(dataclasses.replace(manifest, eos_token_ids=every), own_pair)
    result = run(command, own_pair, "--text", text)
    assert result.exit_code == 2
    assert "nothing to time" in result.stderr.splitlines()[-1]
    assert not (own_pair / PROFILE).exists()


def test_synthetic_acceptance_is_what_was_given_and_labelled(own_pair):
    result = run("bench", own_pair, "--acceptance", "1", "--gamma", "3", "-n", "40", "--json")
    rows = json.loads(result.stdout)["rows"]
    assert all(row["synthetic"] for row in rows)
    assert rows[1]["acceptance_rate"] == 1
    assert rows[1]["tokens_per_target_call"] == 4
    none = run("bench", own_pair, "--acceptance", "0", "--gamma", "3", "-n", "40")
    assert "the text means nothing" in none.stdout
    assert "1.00 tokens a call" in none.stdout.splitlines()[-1]


@pytest.mark.parametrize("acceptance", [-0.1, 1.5])
def test_an_impossible_probability_is_refused(own_pair, acceptance):
    result = run("bench", own_pair, "--acceptance", acceptance)
    assert result.exit_code == 2
    assert "give a probability from 0 to 1" in result.stderr


def test_statistics_leave_out_what_the_consumer_takes(monkeypatch):
    """By a clock that only the rounds (3 each) and the consumer (100 each) move."""
    clock = {"now": 0.0}

    def rounds():
        for token in range(5):
            clock["now"] += 3
            yield Round([token], drafted=0, evaluated=0, accepted=0, logits=np.zeros((1, 5)))

    monkeypatch.setattr("time.perf_counter", lambda: clock["now"])
    stats = Stats()
    for _ in counted(rounds(), stats, lambda: (0.0, 0.0)):
        clock["now"] += 100
    assert stats.tokens == 5
    assert stats.seconds == 15
    assert stats.first_token_seconds == 3


def test_the_synthetic_rule_is_not_the_shipped_one():
    """The synthetic rule ignores p and q, so no user may reach it by a name."""
    from edgespec.core.verification import RULES

    assert synthetic_rule(0.5) not in RULES.values()
    assert set(RULES) == {"coupled", "token", "block"}
