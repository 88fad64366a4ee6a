"""Measures a pair on this device and finds its fastest exact setting."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from edgespec.artifact.manifest import Manifest, read_manifest
from edgespec.core.distribution_options import Sampling
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.stats import Rate
from edgespec.costs.cost_model import Costs
from edgespec.device.device import CPU, Device, variant_title
from edgespec.drafters.registry import DRAFTERS, costs_by_name
from edgespec.errors import UsageError
from edgespec.measure.bench import NOTHING_TO_TIME
from edgespec.measure.predict import (
    Trace,
    mean_acceptance,
    model_trace,
    predicted_speedup,
    replay_trace,
)
from edgespec.measure.remaining import Remaining
from edgespec.measure.round_costs import MAX_GAMMA, RoundCosts, plain_step_seconds, round_costs
from edgespec.measure.tune_result import Trial, Tuning
from edgespec.pair.drafting import DraftChoice
from edgespec.pair.generation_options import GenerationOptions, sampling_options
from edgespec.pair.opening.invariance_cache import invariance_here
from edgespec.pair.opening.loading import load
from edgespec.pair.opening.provider_check import left_out_if_it_cannot, log_distance
from edgespec.pair.opening.runtime import all_providers, provider_name
from edgespec.pair.pair import Pair

__all__ = ["tune"]

logger = logging.getLogger("edgespec")


def tune(
    folder: Path,
    prompts: Sequence[str],
    *,
    sampling: Sampling,
    max_new_tokens: int,
    threads: Sequence[int] = (),
    providers: Sequence[str] = (),
    chat: bool = False,
) -> Tuning:
    """Tries every exact target variant with every drafter, every draft variant, and no draft.

    One line about each thing measured is logged to the logger "edgespec" at level INFO.

    Args:
        prompts: texts of the kind that the pair will be used for; acceptance depends on them.
        sampling: the options that it will be used with.
        max_new_tokens: of each text.
        threads: numbers of threads to try; by default 1 and all cores.
        providers: to try; by default all of this machine.
        chat: put the chat format around the prompts.
    """
    manifest = read_manifest(folder)
    drafts = list(manifest.draft.variants) if manifest.draft else []
    trials: list[Trial] = []
    counts = threads or sorted({1, os.cpu_count() or 1})
    task = _Task(folder, prompts, sampling, max_new_tokens, chat)
    settings = list(product(_providers(providers), counts, manifest.target.variants))
    remaining = Remaining(len(settings))
    for provider, count, target_format in settings:
        with left_out_if_it_cannot(f"target {variant_title(target_format, provider)}", provider):
            if _is_exact(folder, manifest, target_format, Device(count, provider)):
                trials += _tried(_Run(task, target_format, provider, count), drafts)
        remaining.part_done()
    if not trials:
        raise UsageError(f"no target of {folder} is exact where it was tried; nothing is tuned")
    return Tuning.of(trials)


def _providers(names: Sequence[str]) -> list[str]:
    """The providers to try, once each."""
    if names:
        return list(dict.fromkeys(map(provider_name, names)))
    found, hindered = all_providers()
    for line in hindered:
        logger.info(line)
    return [provider.name for provider in found]


def _is_exact(folder: Path, manifest: Manifest, target_format: str, device: Device) -> bool:
    """Whether a target is row-invariant on a device; logs its distance from the processor's."""
    if not invariance_here(folder, manifest, target_format, device).is_row_invariant:
        what = f"target {variant_title(target_format, device.provider)}"
        logger.info("%s: not row-invariant with %s threads, left out", what, device.threads)
        return False
    log_distance(folder, manifest, target_format, device)
    return True


def _tried(run: _Run, drafts: Sequence[str]) -> list[Trial]:
    """Plain decoding and every drafter; a draft model runs on the processor and on the target's
    provider."""
    trials = [run.plain()]
    for named in DRAFTERS.values():
        if named.parts:
            continue
        if not named.uses_model:
            trials.append(run.certain(named.name))
            continue
        for draft_format, provider in product(drafts, dict.fromkeys((CPU, run.provider))):
            with left_out_if_it_cannot(f"draft {variant_title(draft_format, provider)}", provider):
                trials.append(run.model(named.name, draft_format, provider))
    trials = _on_one_scale(trials)
    for trial in trials:
        logger.info(_line(trial))
    return trials


def _on_one_scale(trials: Sequence[Trial]) -> list[Trial]:
    """Trials of one variant with tokens/s that compare.

    They come with the tokens/s of the plain decoding that each took turns with; the median of
    those, times its speed-up, is what a trial reached.
    """
    plain = float(np.median([trial.tokens_per_second for trial in trials]))
    return [dataclasses.replace(trial, tokens_per_second=plain * trial.speedup) for trial in trials]


@dataclass(frozen=True)
class _Task:
    """What is tuned, and for which use; see `tune`."""

    folder: Path
    prompts: Sequence[str]
    sampling: Sampling
    max_new_tokens: int
    chat: bool


class _Run:
    """Measurements of one target variant on one device."""

    def __init__(self, task: _Task, target_format: str, provider: str, threads: int) -> None:
        self._task = task
        self._target_format = target_format
        self.provider = provider
        self._threads = threads
        self._processor = SamplingProcessor(task.sampling)
        self._options = sampling_options(task.sampling) | {
            "max_new_tokens": task.max_new_tokens,
            "seed": 0,
        }
        self._pair = pair = self._load(None, CPU)
        self._prompts = [pair.encode(prompt, task.chat) for prompt in task.prompts]
        plainly = self._options | {"draft": False}
        texts = [pair.generate(prompt, **plainly) for prompt in self._prompts]
        if max(len(text.token_ids) for text in texts) == 1:
            raise UsageError(NOTHING_TO_TIME)
        self._texts = [(text.token_ids, text.finish_reason == "eos") for text in texts]
        self._step = plain_step_seconds([text.stats for text in texts])

    def plain(self) -> Trial:
        """Plain decoding, timed against itself."""
        alone = RoundCosts(Costs([1.0], 0.0), self._step)
        return self._trial("none", None, CPU, alone, [], self._pair)

    def certain(self, name: str) -> Trial:
        """A drafter that runs no model."""
        choice = DraftChoice(name, "auto", rule=None, keeps_text=False)
        drafter, _ = self._pair.drafting.drafter(choice, self._processor)
        assert drafter is not None
        traces = [
            replay_trace(drafter, prompt, text, MAX_GAMMA, ended=ended)
            for prompt, (text, ended) in zip(self._prompts, self._texts, strict=True)
        ]
        timed = round_costs(self._pair, self._prompts, name, self._task.sampling)
        return self._trial(name, None, CPU, timed, traces, self._pair)

    def model(self, name: str, draft_format: str, provider: str) -> Trial:
        """A drafter that runs the draft model, in one variant on one provider."""
        pair = self._load(draft_format, provider)
        assert pair.draft is not None
        traces = [
            model_trace(
                pair.target,
                pair.draft,
                pair.vocabulary,
                prompt,
                text,
                self._processor,
                MAX_GAMMA,
                ended=ended,
            )
            for prompt, (text, ended) in zip(self._prompts, self._texts, strict=True)
        ]
        timed = round_costs(pair, self._prompts, name, self._task.sampling)
        return self._trial(name, draft_format, provider, timed, traces, pair)

    def _load(self, draft_format: str | None, provider: str) -> Pair:
        return load(
            self._task.folder,
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
        """Predicts the best fixed γ, and times it and γ "auto" in turns with plain decoding."""
        costs = timed.costs
        gammas = range(costs.longest + 1)
        speedups = [predicted_speedup(traces, costs, g) for g in gammas] if traces else [1.0]
        gamma = int(np.argmax(speedups))
        ways: dict[str, GenerationOptions] = {"plain": {"draft": False}}
        if gamma:
            pair.use_costs(costs_by_name(costs))
            ways["fixed"] = {"draft": kind, "gamma": gamma}
            ways["adaptive"] = {"draft": DRAFTERS[kind].tuned_with, "gamma": "auto"}
        rates = self._rates(pair, ways)
        speeds = {way: rate.over(rates["plain"]) for way, rate in rates.items()}
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
            measured=speeds.get("fixed", 1.0),
            adaptive=speeds.get("adaptive", 1.0),
            tokens_per_second=rates["plain"].tokens_per_second,
        )

    def _rates(self, pair: Pair, ways: dict[str, GenerationOptions]) -> dict[str, Rate]:
        """Speeds of all ways on all prompts, in turns, so that a drift of the machine affects all
        of them."""
        rates = {way: Rate() for way in ways}
        for prompt in self._prompts:
            for way, options in ways.items():
                stats = pair.generate(prompt, **(self._options | options)).stats
                rates[way].add(stats)
        return rates


def _line(trial: Trial) -> str:
    return (
        f"target {trial.target}, draft {trial.tried}, {trial.threads} threads: "
        f"γ {trial.gamma}, predicted {trial.predicted:.2f}×, "
        f"measured {trial.measured:.2f}×, γ auto {trial.adaptive:.2f}×, "
        f"{trial.tokens_per_second:.1f} tokens/s"
    )
