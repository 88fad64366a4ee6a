"""Claim: γ "auto" of a text goes by what shared calls take, and by how many texts share them."""

from __future__ import annotations

import threading

import pytest

import edgespec
from edgespec.costs.cost_model import Costs
from edgespec.device.kernels import installed_kernels
from edgespec.drafters.registry import costs_by_name
from edgespec.scheduler.load_costs import CallTimes, Load, LoadCosts
from edgespec.scheduler.shared_calls import ROWS

FLAT = Costs([1.0, 1.0, 1.0, 1.0], draft=0.1)  # a row more costs nothing
STEP = 1e-3  # seconds of a call of one row


def times(seconds_of=None, draft=None) -> CallTimes:
    """Times of a pair with these costs, after calls of few rows were measured."""
    found = CallTimes(costs_by_name(FLAT))
    for rows in range(1, 33):
        for _ in range(3):
            if seconds_of is not None:
                found.add(rows, seconds_of(rows), is_draft=False)
            if draft is not None:
                found.add(rows, draft, is_draft=True)
    return found


def of_model(call_times, live) -> Costs:
    return LoadCosts(Load(call_times, live), 3, uses_model=True).now()


def test_guesses_are_the_costs_of_a_text_alone():
    costs = of_model(CallTimes(costs_by_name(FLAT)), live=1)
    assert [*costs.verify] == [*FLAT.verify]
    assert costs.draft == FLAT.draft


def test_with_more_texts_a_row_for_each_costs_more_and_a_draft_less():
    measured = times(lambda rows: STEP * (1 + 0.05 * rows), draft=0.1 * STEP)
    alone, eight = of_model(measured, 1), of_model(measured, 8)
    assert alone.verify[1] == pytest.approx(1.10 / 1.05)
    assert eight.verify[1] == pytest.approx(1.80 / 1.40)
    assert eight.draft == pytest.approx(0.1 / 1.40)
    assert alone.draft == pytest.approx(0.1 / 1.05)
    assert eight.best(0.8)[1] < alone.best(0.8)[1]


def test_a_drafted_token_costs_its_share_of_reading_the_prompt():
    """Two prompts of 0.4 ms, one of them in two pieces, and texts of 10 tokens on average."""
    measured = times(lambda _: STEP, draft=0.1 * STEP)
    before = of_model(measured, 4).draft
    measured.add_draft_reading(4e-4, prompts=1)
    measured.add_draft_reading(3e-4, prompts=1)
    measured.add_draft_reading(1e-4, prompts=0)
    measured.add_sequence(5)
    measured.add_sequence(15)
    for _ in range(CallTimes.KEPT):
        measured.add(1, STEP, is_draft=False)
    assert of_model(measured, 4).draft == pytest.approx(before + 4 * 4e-4 / 10 / STEP)
    assert LoadCosts(Load(measured, 4), 3, uses_model=False).now().draft == 0


def test_guesses_are_corrected_after_a_few_calls():
    learning = CallTimes(costs_by_name(FLAT))
    costs = LoadCosts(Load(learning, 1), 3, uses_model=False)
    assert costs.now().verify[1] == 1.0
    for _ in range(CallTimes.FIRST // 2):
        learning.add(1, STEP, is_draft=False)
        learning.add(2, 3 * STEP, is_draft=False)
    assert costs.now().verify[1] == pytest.approx(3.0)


@pytest.mark.skipif(installed_kernels() is None, reason="texts share no calls without kernels")
def test_times_are_kept_from_one_group_of_texts_to_the_next(chat_folder):
    pair = edgespec.load(chat_folder, threads=1, target_format="int8")
    [*pair.generate_many(["One text.", "Another text."], texts=2)]
    target, *_ = pair.drafting.call_times.now()
    assert max(target) < 1  # seconds, not guessed plain steps
    pair.use_costs(costs_by_name(FLAT))
    assert pair.drafting.call_times.now()[0][0] == 1.0


def test_threads_may_report_while_others_ask():
    shared = CallTimes(costs_by_name(FLAT))
    failed = []

    def work(first: int) -> None:
        try:
            for number in range(3000):
                shared.add(1 + (first + number) % ROWS, STEP, is_draft=bool(number % 2))
                shared.now()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n * 60,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
