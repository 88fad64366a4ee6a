"""Measures a pair on this device and finds its fastest exact setting."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from edgespec.artifact.manifest import Manifest, read_manifest
from edgespec.core.cost_model import Costs
from edgespec.core.device import CPU, Device, variant_title
from edgespec.core.sampling import Sampling
from edgespec.core.stats import Rate
from edgespec.errors import UsageError
from edgespec.measure.bench import NOTHING_TO_TIME
from edgespec.measure.predict import (
    Trace,
    lookup_trace,
    mean_acceptance,
    model_trace,
    predicted_speedup,
)
from edgespec.measure.round_costs import LONGEST, RoundCosts, plain_step_seconds, round_costs
from edgespec.measure.tune_result import Trial, Tuning
from edgespec.pair.invariance_cache import invariance_here
from edgespec.pair.loading import load
from edgespec.pair.pair import Pair
from edgespec.pair.provider_check import left_out_if_it_cannot, say_how_far
from edgespec.pair.runtime import all_providers, provider_name

__all__ = ["tune"]


def tune(
    folder: Path,
    prompts: Sequence[str],
    *,
    sampling: Sampling,
    max_new_tokens: int,
    threads: Sequence[int] = (),
    named: Sequence[str] = (),
    chat: bool = False,
    say: Callable[[str], object] = lambda _: None,
) -> Tuning:
    """Tries every exact target variant with every draft variant, prompt lookup and no draft.

    Args:
        prompts: what the pair will be used for; acceptance depends on it.
        sampling: options that the pair will be used with.
        max_new_tokens: of each text.
        threads: to try; by default 1 and all cores.
        named: providers to try; by default all that there are.
        chat: put the chat format around the prompts.
        say: told one line about each thing measured.
    """
    manifest = read_manifest(folder)
    drafts = list(manifest.draft.variants) if manifest.draft else []
    trials: list[Trial] = []
    counts = threads or sorted({1, os.cpu_count() or 1})
    options = (prompts, sampling, max_new_tokens, chat)
    for provider, count in product(_providers(named, say), counts):
        for target_format in manifest.target.variants:
            what = f"target {variant_title(target_format, provider)}"
            with left_out_if_it_cannot(what, provider, say):
                if _is_exact(folder, manifest, target_format, Device(count, provider), say):
                    run = _Run(folder, target_format, provider, count, *options)
                    trials += _tried(run, drafts, say)
    if not trials:
        raise UsageError(f"no target of {folder} is exact where it was tried; nothing is tuned")
    best = max(trials, key=lambda trial: trial.tokens_per_second)
    return Tuning(trials, best, best.measured_on)


def _providers(named: Sequence[str], say: Callable[[str], object]) -> list[str]:
    """Those to try, once each."""
    if named:
        return list(dict.fromkeys(map(provider_name, named)))
    here, hindered = all_providers()
    for line in hindered:
        say(line)
    return [provider.name for provider in here]


def _is_exact(
    folder: Path,
    manifest: Manifest,
    target_format: str,
    device: Device,
    say: Callable[[str], object],
) -> bool:
    """Whether a target may verify on a device; says how far it is there from the processor's."""
    what = f"target {variant_title(target_format, device.provider)}"
    if not invariance_here(folder, manifest, target_format, device, say).is_row_invariant:
        say(f"{what}: not row-invariant with {device.threads} threads, left out")
        return False
    say_how_far(folder, manifest, target_format, device, say)
    return True


def _tried(run: _Run, drafts: Sequence[str], say: Callable[[str], object]) -> list[Trial]:
    """Every way to draft for a target; a draft model on the processor and where the target is."""
    found = [run.plain(), run.lookup()]
    for draft_format, provider in product(drafts, dict.fromkeys((CPU, run.provider))):
        with left_out_if_it_cannot(f"draft {variant_title(draft_format, provider)}", provider, say):
            found.append(run.model(draft_format, provider))
    found = _on_one_scale(found)
    for trial in found:
        say(_line(trial))
    return found


def _on_one_scale(trials: Sequence[Trial]) -> list[Trial]:
    """Candidates of one variant, each timed in turns with plain decoding of its own, whose tokens/s
    they come with."""
    plain = float(np.median([c.tokens_per_second for c in trials]))
    return [dataclasses.replace(c, tokens_per_second=plain * c.speedup) for c in trials]


class _Run:
    """Measurements of one target variant on one device."""

    def __init__(
        self,
        folder: Path,
        target_format: str,
        provider: str,
        threads: int,
        prompts: Sequence[str],
        sampling: Sampling,
        max_new_tokens: int,
        chat: bool,
    ) -> None:
        self._folder = folder
        self._target_format = target_format
        self.provider = provider
        self._threads = threads
        self._sampling = sampling
        self._options: dict[str, Any] = {
            "max_new_tokens": max_new_tokens,
            **sampling.options,
            "seed": 0,
        }
        self._pair = pair = self._load(None, CPU)
        self._prompts = [pair.encode(prompt, chat) for prompt in prompts]
        texts = [pair.generate(prompt, draft=False, **self._options) for prompt in self._prompts]
        if max(len(text.token_ids) for text in texts) == 1:
            raise UsageError(NOTHING_TO_TIME)
        self._texts = [(text.token_ids, text.finish_reason == "eos") for text in texts]
        self._step = plain_step_seconds([text.stats for text in texts])

    def plain(self) -> Trial:
        alone = RoundCosts(Costs([1.0], 0.0), self._step)
        return self._trial("none", None, CPU, alone, [], self._pair)

    def lookup(self) -> Trial:
        traces = [
            lookup_trace(prompt, text, LONGEST, ended=ended)
            for prompt, (text, ended) in zip(self._prompts, self._texts, strict=True)
        ]
        timed = round_costs(self._pair, self._prompts, "lookup", self._sampling)
        return self._trial("lookup", None, CPU, timed, traces, self._pair)

    def model(self, draft_format: str, provider: str) -> Trial:
        pair = self._load(draft_format, provider)
        assert pair.draft is not None
        traces = [
            model_trace(
                pair.target,
                pair.draft,
                pair.vocabulary,
                prompt,
                text,
                self._sampling.processor(),
                LONGEST,
                ended=ended,
            )
            for prompt, (text, ended) in zip(self._prompts, self._texts, strict=True)
        ]
        timed = round_costs(pair, self._prompts, "model", self._sampling)
        return self._trial("model", draft_format, provider, timed, traces, pair)

    def _load(self, draft_format: str | None, provider: str) -> Pair:
        return load(
            self._folder,
            threads=self._threads,
            provider=self.provider,
            target_format=self._target_format,
            draft_format=draft_format,
            draft_provider=provider,
        )

    def _trial(
        self,
        kind: str,
        draft_format: str | None,
        draft_provider: str,
        timed: RoundCosts,
        traces: list[Trace],
        pair: Pair,
    ) -> Trial:
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
        return Trial(
            target_format=self._target_format,
            draft_format=draft_format,
            kind=kind,
            provider=self.provider,
            draft_provider=draft_provider,
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


def _line(trial: Trial) -> str:
    return (
        f"target {trial.target}, draft {trial.tried}, {trial.threads} threads: "
        f"γ {trial.gamma}, predicted {trial.predicted:.2f}×, "
        f"measured {trial.measured:.2f}×, γ auto {trial.adaptive:.2f}×, "
        f"{trial.tokens_per_second:.1f} tokens/s"
    )
