"""The benchmark against peers: order, arithmetic, log and pipe, with stub peers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.peers.measurements import Log, Measurement, Turn, interleaved, summary
from benchmarks.peers.protocol import Peer, PeerError

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
