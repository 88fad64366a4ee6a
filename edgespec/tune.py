"""Measures a pair on this device and finds its fastest exact setting."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgespec.contract import read_manifest
from edgespec.costs import Costs
from edgespec.distribution import Sampling
from edgespec.errors import UsageError
from edgespec.model import Model
from edgespec.pair import Pair, load
from edgespec.predict import (
    Trace,
    lookup_trace,
    mean_acceptance,
    model_trace,
    predicted_speedup,
)
from edgespec.profile import Profile
from edgespec.runtimes import describe
from edgespec.stats import Rate

__all__ = ["Candidate", "Tuning", "round_seconds", "step_seconds", "tune"]

MAX_POSITIONS = 17
REPEATS = 9


@dataclass(frozen=True)
class Candidate:
    """One way to run the pair, predicted and measured on the same prompts.

    Attributes:
        kind: "model", "lookup" or "none".
        acceptance: α, Σ min(p, q) on average.
        gamma: the best one by prediction.
        predicted, measured: speed-up over plain decoding of the same variant.
        tokens_per_second: measured; of a variant's candidates, what plain decoding of it reached in
            the middle of all its runs, times `measured`. They run one after the other, and a
            machine that drifts must not choose among them.
    """

    target_format: str
    draft_format: str | None
    kind: str
    threads: int
    costs: Costs
    step_ms: float
    acceptance: float
    gamma: int
    predicted: float
    measured: float
    tokens_per_second: float


@dataclass(frozen=True)
class Tuning:
    """Everything that was tried, and the best of it."""

    candidates: list[Candidate]
    best: Candidate
    measured_on: str

    def profile(self) -> Profile:
        best = self.best
        return Profile(
            target_format=best.target_format,
            draft_format=best.draft_format,
            draft=best.kind,
            gamma=best.gamma,
            threads=best.threads,
            verify=list(best.costs.verify),
            draft_cost=best.costs.draft,
            overhead=best.costs.overhead,
            step_ms=best.step_ms,
            measured_on=self.measured_on,
        )


def tune(
    folder: Path,
    prompts: Sequence[str],
    *,
    process: Sampling,
    max_new_tokens: int,
    threads: Sequence[int] = (),
    chat: bool = False,
    say: Callable[[str], object] = lambda _: None,
) -> Tuning:
    """Tries every exact target variant with every draft variant, prompt lookup and no draft.

    Args:
        prompts: what the pair will be used for; acceptance depends on it.
        process: the sampling that it will be used with.
        max_new_tokens: of each text.
        threads: to try; by default 1 and all cores.
        chat: put the chat format around the prompts.
        say: told one line about each thing measured.
    """
    manifest = read_manifest(folder)
    exact = [
        name
        for name, variant in manifest.target.variants.items()
        if variant.row_invariance and variant.row_invariance.verdict
    ]
    if not exact:
        raise UsageError(f"{folder} has no row-invariant target; there is nothing to speculate on")
    drafts = list(manifest.draft.variants) if manifest.draft else []
    candidates: list[Candidate] = []
    for count in threads or sorted({1, os.cpu_count() or 1}):
        for target_format in exact:
            run = _Run(folder, target_format, count, prompts, process, max_new_tokens, chat)
            found = _on_one_scale([run.plain(), run.lookup(), *map(run.model, drafts)])
            for candidate in found:
                say(_line(candidate))
            candidates += found
    best = max(candidates, key=lambda candidate: candidate.tokens_per_second)
    return Tuning(candidates, best, describe(best.threads))


def _on_one_scale(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates of one variant, each timed in turns with plain decoding of its own."""
    plain = float(np.median([c.tokens_per_second / c.measured for c in candidates]))
    return [dataclasses.replace(c, tokens_per_second=plain * c.measured) for c in candidates]


def step_seconds(model: Model, prompt: Sequence[int], positions: Sequence[int]) -> list[float]:
    """Median time of a call with so many positions, behind the prompt. Widths take turns, so
    that a drift of the machine hits them alike."""
    model.prefill(prompt)
    start = model.length
    times: list[list[float]] = [[] for _ in positions]
    for repeat in range(REPEATS + 1):
        for count, taken in zip(positions, times, strict=True):
            began = time.perf_counter()
            model.score([prompt[0]] * count)
            if repeat:  # the first round also allocates
                taken.append(time.perf_counter() - began)
            model.rewind(start)
    return [float(np.median(taken)) for taken in times]


def round_seconds(
    target: Model, draft: Model, prompt: Sequence[int], longest: int
) -> tuple[list[float], float]:
    """Median times of verifying 1 … `longest` + 1 positions and of a draft step, as rounds have
    them: draft and target take turns, and each finds the other's numbers in the caches.

    Returns:
        seconds of the target's calls, [longest + 1], and of one draft step.
    """
    target.prefill(prompt)
    draft.prefill(prompt)
    starts = target.length, draft.length
    steps: list[float] = []
    calls: list[list[float]] = [[] for _ in range(longest + 1)]
    for repeat in range(REPEATS + 1):
        for gamma, taken in enumerate(calls):
            began = time.perf_counter()
            for _ in range(gamma):
                draft.score(prompt[:1])
            drafted = time.perf_counter()
            target.score([prompt[0]] * (gamma + 1))
            if repeat:  # the first round also allocates
                taken.append(time.perf_counter() - drafted)
                steps += [(drafted - began) / gamma] if gamma else []
            target.rewind(starts[0])
            draft.rewind(starts[1])
    return [float(np.median(taken)) for taken in calls], float(np.median(steps))


class _Run:
    """Measurements of one target variant with one number of threads."""

    def __init__(
        self,
        folder: Path,
        target_format: str,
        threads: int,
        prompts: Sequence[str],
        process: Sampling,
        max_new_tokens: int,
        chat: bool,
    ) -> None:
        self._folder = folder
        self._target_format = target_format
        self._threads = threads
        self._process = process
        self._options: dict[str, Any] = {
            "max_new_tokens": max_new_tokens,
            **process.options,
            "seed": 0,
        }
        self._pair = pair = self._load(None)
        self._prompts = [pair.encode(prompt, chat) for prompt in prompts]
        self._steps = step_seconds(pair.target, self._prompts[0], range(1, MAX_POSITIONS + 1))
        self._texts = [
            pair.generate(prompt, draft=False, **self._options).token_ids
            for prompt in self._prompts
        ]

    def plain(self) -> Candidate:
        return self._candidate("none", None, Costs([1.0], 0.0), [], self._pair)

    def lookup(self) -> Candidate:
        traces = [
            lookup_trace(prompt, text, MAX_POSITIONS - 1)
            for prompt, text in zip(self._prompts, self._texts, strict=True)
        ]
        costs = self._costs("lookup", self._steps, 0.0, self._pair)
        return self._candidate("lookup", None, costs, traces, self._pair)

    def model(self, draft_format: str) -> Candidate:
        pair = self._load(draft_format)
        assert pair.draft is not None
        traces = [
            model_trace(
                pair.target,
                pair.draft,
                pair.vocabulary,
                prompt,
                text,
                self._process,
                MAX_POSITIONS - 1,
            )
            for prompt, text in zip(self._prompts, self._texts, strict=True)
        ]
        verify, step = round_seconds(pair.target, pair.draft, self._prompts[0], MAX_POSITIONS - 1)
        costs = self._costs("model", [self._steps[0], *verify[1:]], step, pair)
        return self._candidate("model", draft_format, costs, traces, pair)

    def _load(self, draft_format: str | None) -> Pair:
        return load(
            self._folder,
            threads=self._threads,
            target_format=self._target_format,
            draft_format=draft_format,
        )

    def _costs(
        self, kind: str, verify_seconds: list[float], draft_seconds: float, pair: Pair
    ) -> Costs:
        """In units of a plain step with its loop; a round's loop takes more."""
        plain_loop, loop = (
            self._loop_seconds(pair, way) for way in ({"draft": False}, {"draft": kind, "gamma": 2})
        )
        unit = self._steps[0] + plain_loop
        verify = [(seconds + plain_loop) / unit for seconds in verify_seconds]
        return Costs(verify, draft_seconds / unit, max(0.0, loop - plain_loop) / unit)

    def _loop_seconds(self, pair: Pair, way: dict[str, Any]) -> float:
        """What a round spends outside of the models."""
        rate = Rate()
        for prompt in self._prompts:
            rate.add(pair.generate(prompt, **way, **self._options).stats)
        return (rate.all_seconds - rate.model_seconds) / rate.target_calls

    def _candidate(
        self, kind: str, draft_format: str | None, costs: Costs, traces: list[Trace], pair: Pair
    ) -> Candidate:
        gammas = range(costs.longest + 1)
        speedups = [predicted_speedup(traces, costs, g) for g in gammas] if traces else [1.0]
        gamma = int(np.argmax(speedups))
        rates = {"plain": Rate(), "drafted": Rate()}
        for prompt in self._prompts:  # taking turns, so that a drift of the machine hits both
            rates["plain"].add(pair.generate(prompt, draft=False, **self._options).stats)
            if gamma:
                result = pair.generate(prompt, draft=kind, gamma=gamma, **self._options)
                rates["drafted"].add(result.stats)
        fastest = rates["drafted" if gamma else "plain"]
        return Candidate(
            target_format=self._target_format,
            draft_format=draft_format,
            kind=kind if gamma else "none",
            threads=self._threads,
            costs=costs,
            step_ms=1e3 * self._steps[0],
            acceptance=mean_acceptance(traces),
            gamma=gamma,
            predicted=speedups[gamma],
            measured=rates["drafted"].over(rates["plain"]) if gamma else 1.0,
            tokens_per_second=fastest.tokens_per_second,
        )


def _line(candidate: Candidate) -> str:
    draft = " ".join(filter(None, (candidate.kind, candidate.draft_format)))
    return (
        f"target {candidate.target_format}, draft {draft}, {candidate.threads} threads: "
        f"γ {candidate.gamma}, predicted {candidate.predicted:.2f}×, "
        f"measured {candidate.measured:.2f}×, {candidate.tokens_per_second:.1f} tokens/s"
    )
