"""The benchmark against peers: order, arithmetic, log and pipe, with stub peers."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers.measurements import (
    ALL,
    Log,
    Measurement,
    Turn,
    fastest_opponents,
    interleaved,
    summary,
    together,
)
from benchmarks.peers.prompts import Prompt, digest, of_file
from benchmarks.peers.protocol import Peer, PeerError
from benchmarks.peers.recorded import Recorded, pieces, scored_texts
from benchmarks.peers.ways import CONTESTS
from edgespec.pair.opening.variant_quality import distance

ROOT = Path(__file__).parents[2]


# --- order -------------------------------------------------------------------------------------


def test_edgespec_runs_next_to_every_peer() -> None:
    order = interleaved(
        ["a plain", "b plain", "ours", "our plain"], ["a plain", "b plain"], "ours", 1
    )
    assert order == [
        ("a plain", ""),
        ("ours", "a plain"),
        ("b plain", ""),
        ("ours", "b plain"),
        ("ours", ""),
        ("our plain", ""),
    ]


def test_every_other_repeat_is_reversed() -> None:
    ways = ["a", "ours"]
    assert interleaved(ways, ["a"], "ours", 2) == interleaved(ways, ["a"], "ours", 1)[::-1]


# --- arithmetic --------------------------------------------------------------------------------


def generated(way: str, tokens: list[int], total: float, opponent: str = "") -> Measurement:
    return Measurement(way, opponent, tokens, 1, total / 4, total)


def turn(repeat: int, peer_seconds: float, our_seconds: float) -> Turn:
    return Turn(
        "8 bits",
        "code",
        0,
        repeat,
        0.5,
        [
            generated("peer plain", [1, 2, 3, 4], peer_seconds),
            generated("ours", [1, 2, 3, 5], our_seconds, opponent="peer plain"),
            generated("peer lookup", [1, 2, 9, 9], peer_seconds / 2),
            generated("our plain", [1, 2, 3, 5], 1.0),
        ],
    )


PLAIN = {"peer plain": "peer plain", "peer lookup": "peer plain", "our plain": "our plain"}


def test_a_ratio_is_of_neighbouring_runs_not_of_medians() -> None:
    # The machine is slow in the second repeat for both; the ratios of neighbours are 2, 2 and 4.
    turns = [turn(1, 4.0, 2.0), turn(2, 40.0, 20.0), turn(3, 4.0, 1.0)]
    rows = {row["way"]: row for row in summary(turns, PLAIN, "our plain")}
    assert rows["peer plain"]["ours_over_it"] == 2.0
    assert rows["peer plain"]["tokens_per_second"] == 1.0
    assert rows["peer plain"]["repeats"] == 3
    assert "ours_over_it" not in rows["our plain"]


def test_decoding_is_counted_after_the_first_token() -> None:
    (row,) = summary(
        [Turn("8 bits", "code", 0, 1, 0.0, [generated("our plain", [1, 2, 3, 4], 4.0)])],
        PLAIN,
        "our plain",
    )
    assert row["tokens_per_second"] == 1.0
    assert (
        row["decode_tokens_per_second"] == 1.0
    )  # three tokens in the three seconds after the first


def test_the_time_to_the_first_token_is_compared_too() -> None:
    turns = [turn(1, 4.0, 2.0), turn(2, 4.0, 1.0), turn(3, 4.0, 1.0)]
    rows = {row["way"]: row for row in summary(turns, PLAIN, "our plain")}
    assert rows["peer plain"]["first_token_seconds"] == 1.0
    assert rows["peer plain"]["its_first_token_over_ours"] == 4.0


def test_all_kinds_together_are_one_more_kind() -> None:
    first = turn(1, 4.0, 2.0)
    turns = [first, replace(first, category="chat"), replace(first, category="chat", prompt=1)]
    found = together(turns)
    assert [(each.category, each.prompt) for each in found] == [(ALL, 0), (ALL, 1), (ALL, 2)]
    rows = {row["way"]: row for row in summary(found, PLAIN, "our plain")}
    assert rows["peer plain"]["texts"] == 3
    assert rows["peer plain"]["ours_over_it"] == 2.0


def test_the_fastest_opponent_is_the_one_with_the_smallest_ratio() -> None:
    rows = [
        {"prompts": "chat", "way": "a", "ours_over_it": 2.0, "its_first_token_over_ours": 0.9},
        {"prompts": "chat", "way": "b", "ours_over_it": 1.5, "its_first_token_over_ours": 1.2},
        {"prompts": "chat", "way": "ours"},
    ]
    assert fastest_opponents(rows) == {
        "chat": {
            "whole generation": {"way": "b", "ratio": 1.5},
            "first token": {"way": "a", "ratio": 0.9},
        }
    }


def test_texts_are_compared_with_the_peers_plain_text_and_with_ours() -> None:
    rows = {row["way"]: row for row in summary([turn(1, 4.0, 2.0)], PLAIN, "our plain")}
    assert rows["peer plain"]["texts_equal_to_own_plain"] == 1
    assert rows["peer lookup"]["texts_equal_to_own_plain"] == 0
    assert rows["peer lookup"]["tokens_in_common_with_our_plain"] == 2
    assert rows["peer plain"]["tokens_in_common_with_our_plain"] == 3


# --- log ---------------------------------------------------------------------------------------


def test_a_stopped_run_continues(tmp_path: Path) -> None:
    path, settings = tmp_path / "measured.jsonl", {"tokens": 96}
    Log(path, settings).add(turn(1, 4.0, 2.0))
    again = Log(path, settings)
    assert again.find("8 bits", "code", 0, 1) == turn(1, 4.0, 2.0)
    assert again.find("8 bits", "code", 0, 2) is None


def test_a_later_turn_replaces_an_earlier_one(tmp_path: Path) -> None:
    path, settings = tmp_path / "measured.jsonl", {"tokens": 96}
    log = Log(path, settings)
    log.add(turn(1, 4.0, 2.0))
    log.add(turn(1, 8.0, 2.0))
    assert list(Log(path, settings)) == [turn(1, 8.0, 2.0)]


def test_a_log_with_other_settings_is_refused(tmp_path: Path) -> None:
    Log(tmp_path / "measured.jsonl", {"tokens": 96})
    with pytest.raises(ValueError, match="--fresh"):
        Log(tmp_path / "measured.jsonl", {"tokens": 16})


# --- pipe --------------------------------------------------------------------------------------


def started(tmp_path: Path, body: str) -> Peer:
    """A peer whose script is `body`, between the imports and the call of `serve`."""
    script = tmp_path / "peer.py"
    folder = ROOT / "benchmarks" / "peers"
    script.write_text(
        f"import os, sys\nsys.path.insert(0, {str(folder)!r})\n"
        f"from protocol import Generated, serve\n{body}\nserve(start)\n"
    )
    return Peer([sys.executable, script], tmp_path / "peer.log")


COUNTS = """
def generate(prompt, max_new_tokens):
    print("a library that prints")
    os.write(1, b"and one in C\\n")
    if max_new_tokens == 13:
        raise ValueError("13 is unlucky")
    if max_new_tokens == 14:
        os._exit(1)
    return Generated([len(prompt)] * max_new_tokens, 1, 0.5, 1.0)

def start():
    print("loading")
    return {"weight_bytes": 7}, generate
"""


def test_answers_are_not_disturbed_by_what_libraries_print(tmp_path: Path) -> None:
    peer = started(tmp_path, COUNTS)
    assert peer.ready == {"weight_bytes": 7}
    assert peer.generate([5, 6], 3).tokens == [2, 2, 2]
    with pytest.raises(PeerError, match="ValueError: 13 is unlucky"):
        peer.generate([5, 6], 13)
    assert peer.generate([5], 1).tokens == [1]
    peer.close()
    assert "and one in C" in (tmp_path / "peer.log").read_text()


def test_a_peer_that_dies_is_reported_with_its_last_line(tmp_path: Path) -> None:
    peer = started(tmp_path, COUNTS)
    with pytest.raises(PeerError, match="ended without an answer: and one in C"):
        peer.generate([5, 6], 14)
    peer.close()


def test_a_peer_that_is_not_installed_is_reported_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="No module named 'no_such_peer'"):
        started(tmp_path, "def start():\n    import no_such_peer\n")


# --- prompts -----------------------------------------------------------------------------------

SIX_KINDS = of_file(ROOT / "benchmarks" / "prompts" / "six_kinds.json")


def test_each_of_six_kinds_has_at_least_ten_prompts() -> None:
    counts = Counter(request.kind for request in SIX_KINDS)
    kinds = {"chat", "translation", "summaries", "questions", "maths", "retrieval"}
    assert counts.keys() == kinds
    assert min(counts.values()) >= 10
    assert len({request.prompt for request in SIX_KINDS}) == len(SIX_KINDS)


def test_documents_to_summarise_or_to_search_are_long() -> None:
    words = [
        len(request.prompt.split())
        for request in SIX_KINDS
        if request.kind in ("summaries", "retrieval")
    ]
    assert min(words) >= 400
    assert max(words) <= 1100


def test_other_prompts_or_limits_are_another_measurement() -> None:
    one = Prompt("chat", 0, [1, 2], 96)
    assert digest([one]) == digest([Prompt("chat", 0, [1, 2], 96)])
    assert digest([one]) != digest([Prompt("chat", 0, [1, 2], 48)])
    assert digest([one]) != digest([Prompt("chat", 0, [1, 3], 96)])


# --- contests ----------------------------------------------------------------------------------


def test_every_way_has_a_plain_one_of_the_same_model() -> None:
    for contest in CONTESTS.values():
        names = [way.name for way in contest.ways]
        assert len(set(names)) == len(names)
        assert {way.plain for way in contest.ways} <= set(names)


def test_a_contest_without_a_peer_keeps_edgespec() -> None:
    contest = CONTESTS["8 bits"].among(["openvino"])
    assert {way.peer for way in contest.opponents} == {"openvino"}
    assert contest.ways[-1] == contest.our_plain
    assert contest.ours in contest.ways


# --- llama.cpp's logits --------------------------------------------------------------------------


def test_replayed_logits_are_as_far_as_the_model_that_they_are_of() -> None:
    rng = np.random.default_rng(0)
    reference, other = rng.standard_normal((2, 40, 7)).astype(np.float32)
    samples = [([1, 2, 3], [4, 5]), ([6, 1], [2, 3, 4, 5])]
    found = distance(Recorded(reference), Recorded(other), samples, "fp32")
    # Rows 2, 3 of the first text, and 1 to 4 of the second, which begins at row 4.
    rows = [2, 3, 5, 6, 7, 8]
    log_p, log_q = (
        x[rows] - np.log(np.exp(x[rows]).sum(axis=1, keepdims=True)) for x in (reference, other)
    )
    kl = (np.exp(log_p) * (log_p - log_q)).sum(axis=1).mean()
    assert found.positions == len(rows) == sum(map(len, scored_texts(samples))) - 3
    assert found.kl == pytest.approx(kl)


def test_a_text_is_scored_in_whole_samples() -> None:
    assert pieces(list(range(110))) == [list(range(52)), list(range(52, 104))]
