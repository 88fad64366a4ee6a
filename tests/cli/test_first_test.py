"""Claim: a target that nobody tested on this machine is tested with a line that says how long that
takes, and whoever does not want to wait chats without a draft, which is as exact."""

from __future__ import annotations

import logging
import shutil

import pytest

import edgespec
from edgespec.cli.commands.chat_command import _is_untested, _opened
from edgespec.cli.logging_lines import _Lines
from edgespec.cli.parameters.loading_options import Loading
from edgespec.device.live_progress import LIVE, say_live
from edgespec.pair.opening import invariance_cache
from edgespec.pair.opening.invariance_cache import INVARIANCE_FILE, MeasuringEndedError
from edgespec.pair.pair import Pair
from edgespec_runtimes import measuring_progress
from edgespec_runtimes.measuring_progress import MeasuringProgress

MESSAGES = [{"role": "user", "content": "why"}]
logger = logging.getLogger("edgespec")


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass between two looks at the clock, in a list of one."""
    now, step = [0.0], [0.1]

    def monotonic() -> float:
        now[0] += step[0]
        return now[0]

    monkeypatch.setattr(measuring_progress.time, "monotonic", monotonic)
    return step


@pytest.mark.parametrize(
    ("level", "seconds"), [(LIVE, 0.1), (logging.INFO, 0.1), (logging.INFO, 1)]
)
def test_the_time_left_is_shown_live_or_logged_if_it_is_long(caplog, clock, level, seconds):
    clock[0] = seconds
    with caplog.at_level(level, "edgespec"):
        progress = MeasuringProgress(50)
        for _ in range(50):
            progress.call()
    said = [record.getMessage() for record in caplog.records]
    if level == LIVE:
        assert said[0] == "4 % of the test, about 5 s left; Ctrl-C ends it"
        assert int(said[-1].partition(" ")[0]) > 90
        assert {record.levelno for record in caplog.records} == {LIVE}
    elif seconds == 1:
        assert said[0] == "about 50 calls of 1.0 s: 50 s; Ctrl-C ends it"
        assert said[1] == "11 of about 50 calls"
    else:
        assert said == []


def test_a_live_line_is_replaced_by_what_comes_after_it(capsys):
    handler, level = _Lines(), logger.level
    logger.addHandler(handler)
    logger.setLevel(LIVE)
    try:
        assert say_live("1 %")
        say_live("2 %")
        logger.debug("for developers")
        logger.info("a line")
        say_live("3 %")
        say_live("")
        logger.setLevel(logging.INFO)
        assert not say_live("4 %")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    erased = "\r\x1b[K"
    assert capsys.readouterr().err == f"1 %{erased}2 %{erased}a line\n3 %{erased}"


@pytest.fixture
def tested(chat_folder) -> Pair:
    return edgespec.load(chat_folder, threads=1)


@pytest.fixture
def untested(chat_folder, tmp_path, monkeypatch):
    """A chat pair whose test the user ends at once."""
    folder = tmp_path / "pair"
    shutil.copytree(chat_folder, folder)
    (folder / INVARIANCE_FILE).unlink(missing_ok=True)

    def ended(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(invariance_cache, "measure_row_invariance", ended)
    monkeypatch.setattr(invariance_cache, "known_invariance", lambda *_: None)
    monkeypatch.setattr(invariance_cache, "_confirmed_invariance", lambda *_: None)
    return Loading(str(folder), {"threads": 1})


def test_a_chat_begins_without_a_draft_when_its_test_is_ended(tested, untested, capsys):
    options: dict[str, object] = {"draft": True}
    pair = _opened(untested, options, at_terminal=True)
    assert "not tested: this chat does without a draft" in capsys.readouterr().err
    assert options["draft"] is False
    assert _is_untested(pair, options)
    found = pair.generate(MESSAGES, max_new_tokens=8, draft=False)
    assert found.settings.draft == "none"
    assert found.token_ids == tested.generate(MESSAGES, max_new_tokens=8).token_ids
    assert not _is_untested(tested, {"draft": False})


def test_without_a_terminal_ctrl_c_ends_the_program(untested):
    with pytest.raises(MeasuringEndedError):
        _opened(untested, {"draft": True}, at_terminal=False)
    with pytest.raises(KeyboardInterrupt):
        untested.pair()


def test_a_chat_that_shall_not_draft_is_not_tested(untested):
    assert _opened(untested, {"draft": False}, at_terminal=True).formats
