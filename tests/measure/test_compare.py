"""Claim: `edgespec compare` has a row for each way and kind, from texts that are the same in all
ways, and refuses pairs that have another target.

The tiny pairs' times mean nothing.
"""

from __future__ import annotations

import json
from itertools import product

import pytest

from checkpoints import write_noisy
from command import run
from edgespec.cli.render import describe_comparison
from edgespec.core.distribution_options import Sampling
from edgespec.measure.compare import Request, compare
from edgespec.pair.opening.same_target import load_same_target
from edgespec_export.export_pair import export_pair

REQUESTS = [
    Request("letters", "a small text", 16),
    Request("letters", "another one", 12),
    Request("digits", "0123456789 0123456789", 16),
]
WAYS = ["plain", "lookup", "good, model", "good, both", "bad, model", "bad, both"]


@pytest.fixture(scope="module")
def other_folder(tiny_checkpoints, tmp_path_factory):
    """The tiny target with a draft that agrees less with it."""
    folder = tmp_path_factory.mktemp("other")
    target, _ = tiny_checkpoints
    draft = write_noisy(target, folder / "draft", noise=0.3)
    export_pair(str(target), str(draft), folder / "pair", threads=1)
    return folder / "pair"


@pytest.fixture(scope="module")
def pairs(tiny_folder, other_folder):
    good, bad = load_same_target([tiny_folder, other_folder], threads=1)
    return {"good": good, "bad": bad}


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.0)], ids=["greedy", "sampled"])
def test_every_way_of_every_kind_has_a_row_and_the_plain_texts(pairs, sampling):
    rows = compare(pairs, REQUESTS, sampling=sampling, chat=False, gamma=3, repeats=2)
    assert [(row.kind, row.way) for row in rows] == list(product(["letters", "digits", None], WAYS))
    assert [row.texts for row in rows] == [4] * 6 + [2] * 6 + [6] * 6
    assert {row.different for row in rows} == {0}
    for row in rows:
        assert row.whole > 0
        if row.way == "plain":
            assert (row.acceptance_rate, row.cost, row.tokens_per_target_call) == (None, None, 1)
            assert (row.decoding, row.whole) == (1, 1)
        elif row.way.endswith("model"):
            assert row.cost > 0


def test_a_draft_that_agrees_more_is_accepted_more(pairs):
    found = compare(pairs, REQUESTS, sampling=Sampling(), chat=False, gamma=3)
    rows = {row.way: row for row in found if row.kind is None}
    assert rows["good, model"].acceptance_rate > rows["bad, model"].acceptance_rate


def test_a_text_that_differs_is_counted_where_it_happened(pairs, monkeypatch):
    """The second pair is told to end its texts earlier, as another target would."""
    generate = pairs["bad"].generate
    shorter = {"max_new_tokens": 1}
    monkeypatch.setattr(pairs["bad"], "generate", lambda *a, **b: generate(*a, **(b | shorter)))
    rows = compare(pairs, REQUESTS, sampling=Sampling(), chat=False)
    plain = [
        pairs["good"].generate(r.prompt, max_new_tokens=r.max_new_tokens, draft=False)
        for r in REQUESTS
    ]
    longer = sum(len(text.token_ids) > 1 for text in plain)  # the others end by themselves
    assert longer > 0
    assert [row.different for row in rows[-6:]] == [0, 0, 0, 0, longer, longer]


def test_the_table_shows_all_rows_and_dashes_where_nothing_was_drafted(pairs):
    rows = compare(pairs, REQUESTS[:1], sampling=Sampling(), chat=False)
    machine, header, *lines = describe_comparison(rows, "a machine").splitlines()
    assert machine == "a machine"
    assert header.split()[:5] == ["kind", "way", "texts", "α", "c"]
    assert [line.split("  ")[0] for line in lines] == [f"letters {way}" for way in WAYS]
    assert lines[0].split() == [
        *("letters", "plain", "1", "-", "-", "1.00", "1.00×", "1.00×"),
        f"{rows[0].tokens_per_second:.1f}",
    ]


def test_the_command_compares_folders_on_a_users_prompts(tiny_folder, other_folder, tmp_path):
    prompts = tmp_path / "prompts.json"
    prompts.write_text(json.dumps([vars(request) for request in REQUESTS]))
    options = ["--drafts", other_folder, "--threads", 1, "--prompts", prompts, "-n", 6, "--json"]
    found = json.loads(run("compare", tiny_folder, *options).stdout)
    assert len(found["rows"]) == 3 * 6
    assert found["measured_on"]
    assert found["rows"][4]["way"] == f"{other_folder}, model"  # both folders are named "pair"
    assert found["rows"][-1]["kind"] is None
    assert found["rows"][0].keys() == {
        *("way", "kind", "texts", "different", "acceptance_rate", "cost"),
        *("tokens_per_target_call", "decoding", "whole", "tokens_per_second"),
    }


def test_the_lines_of_a_text_are_one_kind_and_a_plot_is_drawn(tiny_folder, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "texts.txt").write_text("a small text\nanother one\n")
    options = ["--text", tmp_path / "texts.txt", "-n", 6, "--plot", tmp_path / "bars.png"]
    said = run("compare", tiny_folder, "--threads", 1, *options).stdout
    assert [line.split()[0] for line in said.splitlines()[2:]] == ["texts"] * 4
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")


def test_a_pair_with_another_target_is_refused_by_name(tiny_folder, tiny_checkpoints, tmp_path):
    target, draft = tiny_checkpoints
    export_pair(str(draft), str(target), tmp_path / "pair", threads=1)
    (line,) = run("compare", tiny_folder, "--drafts", tmp_path / "pair", code=2).stderr.splitlines()
    assert f"{tmp_path / 'pair'} has another target than {tiny_folder}: their weights" in line


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "it is empty"),
        ("no json", "is no list of prompts"),
        ('[{"kind": "a", "prompt": "b"}]', "lacks max_new_tokens"),
        ('[{"kind": "a", "prompt": "b", "max_new_tokens": 0}]', "max_new_tokens is 0"),
    ],
)
def test_a_file_that_is_no_list_of_prompts_is_refused(tiny_folder, tmp_path, content, said):
    (tmp_path / "prompts.json").write_text(content)
    (line,) = run(
        "compare", tiny_folder, "--prompts", tmp_path / "prompts.json", code=2
    ).stderr.splitlines()
    assert said in line
    assert "prompts.json" in line
