"""The measured half of Table 2, with or without checkpoints.

Two T5 models with random weights never agree. So each drafted token is accepted at random, with
the paper's α. A round still does all its work: drafting, verification, both distributions, the
residual. The measurement shows the speed-up that a machine reaches at a given acceptance.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

import jax.numpy as jnp
import numpy as np

import jax
from edgespec.costs.cost_model import Costs, expected_tokens
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
Timer = Callable[[], float]


@dataclass(frozen=True)
class Bench:
    """The sizes of a benchmark.

    Attributes:
        divisor: divides the models' widths, heads and vocabulary; 1 is the real size.
        number_format: "bf16" or "fp32".
        checkpoints: by size ("T5-XXL"); a size without one gets random weights.
        prompt, tokens: lengths of the source and of the text, in tokens.
        texts: timed for each row; their acceptance differs.
    """

    divisor: int = 1
    number_format: str = "bf16"
    checkpoints: Mapping[str, JaxCheckpoint] = field(default_factory=dict)
    prompt: int = 64
    tokens: int = 128
    texts: int = 5


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
    plain: Mapping[int, Callable[[int], Text]]


def wallclock(paper: Paper, bench: Bench) -> Report:
    """All rows of Table 2 on this machine, next to the paper's figures."""
    target = _target(paper, bench)
    logger.info(f"{TARGET}: t(1) = {1e3 * target.calls[1]():.2f} ms")
    rows: dict[int, Row] = {}
    for name in dict.fromkeys(row.draft for row in paper.speed):
        draft = _model(name, bench)
        call = call_timer(draft, 1, target.prompt, bench.tokens)
        for index, row in enumerate(paper.speed):
            if row.draft == name:
                rows[index] = _row(row, _timings(row, target, draft, call, bench))
                logger.info(f"{row.task} {name} T={row.temperature}: {rows[index]['speed-up']:.2f}")
    title = f"Table 2 on {jax.devices()[0].device_kind}, synthetic acceptance"
    ordered = [rows[index] for index in sorted(rows)]
    setting = machine() | _setting(bench)
    return Report("table2-measured", title, ordered, _notes(paper, bench), setting)


def _target(paper: Paper, bench: Bench) -> _Target:
    model = _model(TARGET, bench)
    tokens = np.random.default_rng(0).integers(3, model.network.vocab_size, bench.prompt, np.int32)
    prompt = jnp.asarray(tokens)
    widths = {1, *(row.gamma + 1 for row in paper.speed)}
    plain = {
        t: text_timer(_decoder(bench, model, None, 0, "token", greedy=t == 0), prompt, t)
        for t in {row.temperature for row in paper.speed}
    }
    calls = {width: call_timer(model, width, prompt, bench.tokens) for width in widths}
    return _Target(model, prompt, calls, plain)


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
    row: SpeedRow, target: _Target, draft: JaxModel, draft_call: Timer, bench: Bench
) -> _Timings:
    rule = synthetic_rule(jnp.float32(row.alpha))
    greedy = row.temperature == 0
    decoder = _decoder(bench, target.model, draft, row.gamma, rule, greedy=greedy)
    speculative = text_timer(decoder, target.prompt, row.temperature)
    plain = target.plain[row.temperature]
    one, verification = target.calls[1], target.calls[row.gamma + 1]
    turns = [
        (speculative(seed), plain(seed), draft_call(), one(), verification())
        for seed in range(bench.texts)
    ]
    assert decoder.traces == 1, "the loop was compiled again"
    return _Timings(*zip(*turns, strict=True))


def _row(row: SpeedRow, timed: _Timings) -> Row:
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
        "v(γ+1)": v,
        "tokens a round, expected": expected_tokens(row.alpha, row.gamma),
        "tokens a round": tokens,
        "expected, paper": row.expected_speedup,
        "measured, paper": row.measured_speedup,
        "S": predicted,
        "speed-up": measured,
        "of S": f"{measured / predicted:.0%}",
    }


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
