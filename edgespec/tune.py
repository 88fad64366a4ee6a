"""Measures a pair on this device and finds its fastest exact setting."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgespec.bench import NOTHING_TO_TIME
from edgespec.contract import read_manifest
from edgespec.costs import Costs
from edgespec.distribution import Sampling
from edgespec.errors import UsageError
from edgespec.loading import load
from edgespec.pair import Pair
from edgespec.predict import (
    Trace,
    lookup_trace,
    mean_acceptance,
    model_trace,
    predicted_speedup,
)
from edgespec.profile import Profile
from edgespec.round_costs import LONGEST, RoundCosts, plain_step_seconds, round_costs
from edgespec.runtimes import describe
from edgespec.stats import Rate
from edgespec.verdicts import verdict_here

__all__ = ["Candidate", "Tuning", "tune"]

CLEARLY_SLOWER = 0.97  # what lies between changes from run to run


@dataclass(frozen=True)
class Candidate:
    """One way to run the pair, predicted and measured on the same prompts.

    Attributes:
        kind: of the draft that was tried: "model", "lookup" or "none".
        acceptance: α, Σ min(p, q) on average.
        gamma: the best fixed one by prediction; 0 where drafting does not pay.
        predicted, measured: its speed-up over plain decoding of the same variant.
        adaptive: speed-up measured with γ "auto", a model and prompt lookup taking turns.
        tokens_per_second: measured; of a variant's candidates, what plain decoding of it reached in
            the middle of all its runs, times `speedup`. They run one after the other, and a
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
    adaptive: float
    tokens_per_second: float

    @property
    def follows(self) -> bool:
        """Whether γ "auto" is to be preferred: unless clearly slower, for it serves other texts."""
        return self.adaptive > CLEARLY_SLOWER * self.measured

    @property
    def draft(self) -> str:
        """What is to draft, as `generate` is told it."""
        if not self.gamma:
            return "none"
        return "both" if self.kind == "model" and self.follows else self.kind

    @property
    def speedup(self) -> float:
        """Over plain decoding, as it is to be run."""
        return self.adaptive if self.follows else self.measured


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
            draft=best.draft,
            gamma="auto" if best.follows else best.gamma,
            threads=best.threads,
            verify=list(best.costs.verify),
            draft_cost=best.costs.draft,
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
    drafts = list(manifest.draft.variants) if manifest.draft else []
    candidates: list[Candidate] = []
    for count in threads or sorted({1, os.cpu_count() or 1}):
        for target_format in manifest.target.variants:
            if not verdict_here(folder, manifest, target_format, count, say).verdict:
                say(f"target {target_format}: not row-invariant with {count} threads, left out")
                continue
            run = _Run(folder, target_format, count, prompts, process, max_new_tokens, chat)
            found = _on_one_scale([run.plain(), run.lookup(), *map(run.model, drafts)])
            for candidate in found:
                say(_line(candidate))
            candidates += found
    if not candidates:
        raise UsageError(f"{folder} has no row-invariant target; there is nothing to speculate on")
    best = max(candidates, key=lambda candidate: candidate.tokens_per_second)
    return Tuning(candidates, best, describe(best.threads))


def _on_one_scale(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates of one variant, each timed in turns with plain decoding of its own, whose tokens/s
    they come with."""
    plain = float(np.median([c.tokens_per_second for c in candidates]))
    return [dataclasses.replace(c, tokens_per_second=plain * c.speedup) for c in candidates]


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
        texts = [pair.generate(prompt, draft=False, **self._options) for prompt in self._prompts]
        if max(len(text.token_ids) for text in texts) == 1:
            raise UsageError(NOTHING_TO_TIME)
        self._texts = [(text.token_ids, text.finish_reason == "eos") for text in texts]
        self._step = plain_step_seconds([text.stats for text in texts])

    def plain(self) -> Candidate:
        alone = RoundCosts(Costs([1.0], 0.0), self._step)
        return self._candidate("none", None, alone, [], self._pair)

    def lookup(self) -> Candidate:
        traces = [
            lookup_trace(prompt, text, LONGEST, ended=ended)
            for prompt, (text, ended) in zip(self._prompts, self._texts, strict=True)
        ]
        timed = round_costs(self._pair, self._prompts, "lookup", self._process)
        return self._candidate("lookup", None, timed, traces, self._pair)

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
                LONGEST,
                ended=ended,
            )
            for prompt, (text, ended) in zip(self._prompts, self._texts, strict=True)
        ]
        timed = round_costs(pair, self._prompts, "model", self._process)
        return self._candidate("model", draft_format, timed, traces, pair)

    def _load(self, draft_format: str | None) -> Pair:
        return load(
            self._folder,
            threads=self._threads,
            target_format=self._target_format,
            draft_format=draft_format,
        )

    def _candidate(
        self,
        kind: str,
        draft_format: str | None,
        timed: RoundCosts,
        traces: list[Trace],
        pair: Pair,
    ) -> Candidate:
        costs = timed.costs
        gammas = range(costs.longest + 1)
        speedups = [predicted_speedup(traces, costs, g) for g in gammas] if traces else [1.0]
        gamma = int(np.argmax(speedups))
        ways: dict[str, dict[str, Any]] = {"plain": {"draft": False}}
        if gamma:
            pair.costs = costs.of_kinds()
            adaptive = "both" if kind == "model" else kind
            ways["fixed"] = {"draft": kind, "gamma": gamma}
            ways["adaptive"] = {"draft": adaptive, "gamma": "auto"}
        rates = {way: Rate() for way in ways}
        for prompt in self._prompts:  # taking turns, so that a drift of the machine hits all
            for way, options in ways.items():
                rates[way].add(pair.generate(prompt, **options, **self._options).stats)
        found = {way: rate.over(rates["plain"]) for way, rate in rates.items()}
        return Candidate(
            target_format=self._target_format,
            draft_format=draft_format,
            kind=kind,
            threads=self._threads,
            costs=costs,
            step_ms=1e3 * timed.step_seconds,
            acceptance=mean_acceptance(traces),
            gamma=gamma,
            predicted=speedups[gamma],
            measured=found.get("fixed", 1.0),
            adaptive=found.get("adaptive", 1.0),
            tokens_per_second=rates["plain"].tokens_per_second,
        )


def _line(candidate: Candidate) -> str:
    draft = " ".join(filter(None, (candidate.kind, candidate.draft_format)))
    return (
        f"target {candidate.target_format}, draft {draft}, {candidate.threads} threads: "
        f"γ {candidate.gamma}, predicted {candidate.predicted:.2f}×, "
        f"measured {candidate.measured:.2f}×, γ auto {candidate.adaptive:.2f}×, "
        f"{candidate.tokens_per_second:.1f} tokens/s"
    )
