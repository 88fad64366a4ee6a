"""The measured half of Table 2, with or without checkpoints.

Two T5 models with random weights never agree. So each drafted token is accepted at random, with
the paper's α. A round still does all its work: drafting, verification, both distributions, the
residual. The measurement shows the speed-up that a machine reaches at a given acceptance.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TypeVar

import jax.numpy as jnp
import numpy as np

import jax
from edgespec.costs.cost_model import Costs, expected_tokens
from edgespec_jax.jax_blocks import HEAD
from edgespec_jax.jax_pair import JaxDecoder
from edgespec_jax.jax_verification import Rule, synthetic_rule
from edgespec_jax.jax_weights import DTYPES, JaxCheckpoint, JaxModel, load_jax_model
from edgespec_jax.reproduce.accelerator import machine
from edgespec_jax.reproduce.paper import Paper, SpeedRow
from edgespec_jax.reproduce.shapes import config_of, random_t5
from edgespec_jax.reproduce.table_report import Report, Row
from edgespec_jax.reproduce.timing import CALLS, Text, call_timer, text_timer
from jax import Array

__all__ = ["Bench", "wallclock"]

logger = logging.getLogger("edgespec")
TARGET = "T5-XXL"
COMPILERS = min(8, os.cpu_count() or 1)  # programs compiled at the same time
Timer = Callable[[], float]
TextTimer = Callable[[int], Text]
T = TypeVar("T")


@dataclass(frozen=True)
class Bench:
    """The sizes of a benchmark.

    Attributes:
        divisor: divides the models' widths, heads and vocabulary; 1 is the real size.
        number_format: "bf16" or "fp32".
        checkpoints: by size ("T5-XXL"); a size without one gets random weights.
        prompt, tokens: lengths of the source and of the text, in tokens.
        texts: timed for each row; their acceptance differs.
        row_seconds: after which a row has no further texts; it has at least one.
    """

    divisor: int = 1
    number_format: str = "bf16"
    checkpoints: Mapping[str, JaxCheckpoint] = field(default_factory=dict)
    prompt: int = 64
    tokens: int = 128
    texts: int = 5
    row_seconds: float = math.inf


@dataclass(frozen=True)
class _Target:
    """The target and the baselines of every row.

    Attributes:
        calls: timers of one decoder call, by its number of positions.
        plain: timers of one text without a draft, by temperature.
    """

    model: JaxModel
    prompt: Array
    calls: Mapping[int, Timer]
    plain: Mapping[int, TextTimer]


def wallclock(paper: Paper, bench: Bench) -> Iterator[Report]:
    """Rows of Table 2 on this machine, next to the paper's figures.

    Yields:
        After each row, all rows measured so far: a run that is cut short has something to show.
    """
    target = _target(paper, bench)
    logger.info(f"{TARGET}: t(1) = {1e3 * target.calls[1]():.2f} ms")
    title = f"Table 2 on {jax.devices()[0].device_kind}, synthetic acceptance"
    setting = machine() | _setting(bench)
    rows: dict[int, Row] = {}
    for name in dict.fromkeys(row.draft for row in paper.speed):
        draft = _model(name, bench)
        own = {i: row for i, row in enumerate(paper.speed) if row.draft == name}
        decoders = [_speculative(row, target, draft, bench) for row in own.values()]
        texts = [
            partial(text_timer, d, target.prompt, r.temperature)
            for d, r in zip(decoders, own.values(), strict=True)
        ]
        call = call_timer(draft, 1, target.prompt, bench.tokens)
        for decoder, text, (index, row) in zip(decoders, _at_once(texts), own.items(), strict=True):
            timed = _timings(row, target, text, call, bench)
            assert decoder.traces == 1, "the loop was compiled again"
            rows[index] = _row(row, timed, target)
            logger.info(f"{row.task} {name} T={row.temperature}: {rows[index]['speed-up']:.2f}")
            ordered = [rows[index] for index in sorted(rows)]
            yield Report("table2-measured", title, ordered, _notes(paper, bench), setting)


def _at_once(makers: Sequence[Callable[[], T]]) -> list[T]:
    """What each returns. They compile; a compiler leaves the interpreter to the others."""
    with ThreadPoolExecutor(COMPILERS) as threads:
        return list(threads.map(lambda make: make(), makers))


def _target(paper: Paper, bench: Bench) -> _Target:
    model = _model(TARGET, bench)
    tokens = np.random.default_rng(0).integers(3, model.network.vocab_size, bench.prompt, np.int32)
    prompt = jnp.asarray(tokens)
    widths = sorted({1, *(row.gamma + 1 for row in paper.speed)})
    temperatures = sorted({row.temperature for row in paper.speed})
    plain = _at_once(
        [
            partial(text_timer, _decoder(bench, model, None, 0, "token", greedy=t == 0), prompt, t)
            for t in temperatures
        ]
    )
    calls = _at_once([partial(call_timer, model, width, prompt, bench.tokens) for width in widths])
    return _Target(
        model,
        prompt,
        dict(zip(widths, calls, strict=True)),
        dict(zip(temperatures, plain, strict=True)),
    )


def _speculative(row: SpeedRow, target: _Target, draft: JaxModel, bench: Bench) -> JaxDecoder:
    rule = synthetic_rule(jnp.float32(row.alpha))
    greedy = row.temperature == 0
    return _decoder(bench, target.model, draft, row.gamma, rule, greedy=greedy)


def _decoder(
    bench: Bench,
    target: JaxModel,
    draft: JaxModel | None,
    gamma: int,
    rule: str | Rule,
    *,
    greedy: bool,
) -> JaxDecoder:
    return JaxDecoder(
        target,
        draft,
        gamma=gamma,
        rule=rule,
        greedy=greedy,
        ends=(),
        prompt_capacity=bench.prompt,
        capacity=bench.tokens,
    )


@dataclass(frozen=True)
class _Timings:
    """What was measured for a row of Table 2; element i of each tuple was timed in turn i.

    Attributes:
        texts, plains: speculative and plain texts.
        drafts, ones, verifications: seconds of a draft call, of a target call of one position, and
            of a target call of γ + 1 positions.
    """

    texts: tuple[Text, ...]
    plains: tuple[Text, ...]
    drafts: tuple[float, ...]
    ones: tuple[float, ...]
    verifications: tuple[float, ...]


def _timings(
    row: SpeedRow, target: _Target, speculative: TextTimer, draft_call: Timer, bench: Bench
) -> _Timings:
    plain = target.plain[row.temperature]
    one, verification = target.calls[1], target.calls[row.gamma + 1]
    began = time.perf_counter()
    turns: list[tuple[Text, Text, float, float, float]] = []
    for seed in range(bench.texts):
        turns.append((speculative(seed), plain(seed), draft_call(), one(), verification()))
        if time.perf_counter() - began > bench.row_seconds:
            break
    return _Timings(*zip(*turns, strict=True))


def _row(row: SpeedRow, timed: _Timings, target: _Target) -> Row:
    tokens = sum(text.tokens for text in timed.texts) / sum(text.rounds for text in timed.texts)
    one = median(timed.ones)
    c, v = median(timed.drafts) / one, median(timed.verifications) / one
    round_seconds = median(text.seconds / text.rounds for text in timed.texts)
    plain_seconds = median(text.seconds / text.rounds for text in timed.plains)
    measured = tokens * plain_seconds / round_seconds
    # Only v(γ + 1) was measured, and `round` reads no other entry.
    costs = Costs([1.0] * row.gamma + [v], draft=c)
    predicted = tokens / costs.round(row.gamma)
    return {
        "task": row.task,
        "draft": row.draft,
        "T": row.temperature,
        "γ": row.gamma,
        "α": row.alpha,
        "c, paper": row.c,
        "c": c,
        "t(1), ms": 1e3 * one,
        "t(1), GB/s": _bytes_read(target.model) / one / 1e9,
        "v(γ+1)": v,
        "tokens a round, expected": expected_tokens(row.alpha, row.gamma),
        "tokens a round": tokens,
        "expected, paper": row.expected_speedup,
        "measured, paper": row.measured_speedup,
        "S": predicted,
        "speed-up": measured,
        "of S": f"{measured / predicted:.0%}",
        "round, ms": 1e3 * round_seconds,
        "texts": str(len(timed.texts)),
    }


def _bytes_read(model: JaxModel) -> int:
    """The size of the weights that a decoder call reads, which has the source's keys already."""
    return sum(
        array.nbytes
        for name, array in model.params.items()
        if name == HEAD or (name.startswith("decoder.") and ".EncDecAttention.kv" not in name)
    )


def _model(size: str, bench: Bench) -> JaxModel:
    checkpoint = bench.checkpoints.get(size)
    if checkpoint is not None:
        return load_jax_model(checkpoint, bench.number_format)
    return random_t5(config_of(size, bench.divisor), DTYPES[bench.number_format])


def _setting(bench: Bench) -> Row:
    return {
        "format": bench.number_format,
        "checkpoints": ", ".join(bench.checkpoints) or "none, random weights",
        "n": f"{bench.texts} texts of {bench.tokens} tokens per row after a prompt of "
        f"{bench.prompt}, in turns with as many plain texts and {bench.texts} × {CALLS} calls",
    }


def _notes(paper: Paper, bench: Bench) -> list[str]:
    notes = [
        paper.source,
        "tokens are accepted at random with the paper's α; S = tokens / (γc + v(γ+1)) with the "
        "measured tokens a round; speed-up = tokens a round · plain step / round (medians)",
        "times exclude the prompt; the baseline is the same compiled loop at γ = 0",
    ]
    if bench.divisor > 1:
        notes.append(
            f"REDUCED: every width, head count and vocabulary is divided by {bench.divisor}; "
            "these are not the paper's models"
        )
    return notes
