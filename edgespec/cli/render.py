"""Generations, pairs and measurements as text for people and as JSON for programs."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence

import click

from edgespec.artifact.chat_format import NEEDS_JINJA
from edgespec.artifact.hosts import describe_made_for, made_for
from edgespec.artifact.manifest import CHAT_TEMPLATE, Exported, FusedBlocks, Manifest, Variant
from edgespec.artifact.row_invariance import RowInvariance
from edgespec.chat.chat_template import jinja_is_installed
from edgespec.cli.console import console_text
from edgespec.core.stats import Stats
from edgespec.device.device import CPU, drafter_title, variant_title
from edgespec.device.kernels import OFF, SWITCH, installed_kernels, missing_kernels
from edgespec.measure.bench import BenchRow
from edgespec.measure.compare import ComparedWay
from edgespec.measure.tune_result import Trial, Tuning
from edgespec.pair.generation import Generation, Settings, Stream
from edgespec.pair.opening.memory_estimate import MemoryEstimate
from edgespec.pair.opening.profile import Profile

__all__ = [
    "bench_json",
    "comparison_json",
    "describe_bench",
    "describe_comparison",
    "describe_pair",
    "describe_tuning",
    "pair_json",
    "show_generation",
    "stats_lines",
    "tuning_json",
]


Measured = Mapping[str, RowInvariance]  # by variant


def show_generation(stream: Stream, *, show_draft: bool, stats: bool, as_json: bool) -> None:
    """Reads a stream to its end: text as it is made, or one JSON object, on stdout."""
    if as_json:
        for _ in stream:
            pass
        click.echo(_generation_json(stream.result))
        return
    _write_stream(stream, show_draft)
    if stats:
        _show_stats(stream.result)


def _write_stream(stream: Stream, show_draft: bool) -> None:
    """Writes text to stdout as it is made; with `show_draft` drafted tokens are green."""
    for chunk in stream:
        coloured = show_draft and chunk.from_draft and chunk.text
        text = console_text(chunk.text)
        click.echo(click.style(text, fg="green") if coloured else text, nl=False)
    click.echo()


def _show_stats(result: Generation) -> None:
    """Writes speed and acceptance to stderr, so that stdout is the text alone."""
    for line in stats_lines(result):
        click.secho(line, err=True, dim=True)


def stats_lines(result: Generation) -> list[str]:
    """Speed and acceptance of a generation, and how it was made."""
    stats = result.stats
    lines = [
        f"{stats.tokens} tokens in {stats.seconds:.2f} s: {stats.tokens_per_second:.1f} tokens/s "
        f"(first after {stats.first_token_seconds * 1000:.0f} ms, a prompt of "
        f"{result.prompt_tokens}), ended by {result.finish_reason or 'interruption'}",
        f"{stats.target_calls} target calls: {stats.tokens_per_target_call:.2f} tokens a call",
    ]
    if stats.drafted:
        lines.append(_acceptance(stats))
    lines.append(_settings(result.settings))
    if result.settings.provider == CPU:
        lines.append(_kernels())
    lines.append(
        f"time: target {_share(stats.target_seconds, stats)}, "
        f"draft {_share(stats.draft_seconds, stats)}, loop {stats.loop_share:.0%}; "
        f"seed {result.seed}"
    )
    return lines


def _acceptance(stats: Stats) -> str:
    by_position = " ".join(f"{rate:.0%}" for rate in stats.acceptance_by_position)
    return (
        f"accepted {stats.accepted} of {stats.evaluated} drafted tokens evaluated "
        f"({stats.acceptance_rate:.0%}; {stats.drafted} drafted), by position: {by_position}"
        + (
            f"; {stats.committed} of {stats.candidates} candidates committed"
            if stats.candidates
            else ""
        )
    )


def _settings(settings: Settings) -> str:
    target = variant_title(settings.target_format, settings.provider)
    if settings.draft == "none":
        return f"target {target}, no draft"
    draft = drafter_title(settings.draft, settings.draft_format, settings.draft_provider)
    return f"target {target}, draft {draft}, γ {settings.gamma}, {settings.rule} rule"


def _kernels() -> str:
    """The kernels that run graphs on the processor, with the instruction set that they use."""
    return f"kernels: {installed_kernels() or _no_kernels()}"


def _no_kernels() -> str:
    if os.environ.get(SWITCH) == OFF:
        return f"switched off ({SWITCH}={OFF})"
    why = missing_kernels() or "there are none for this processor"
    return f"none, ONNX Runtime runs the operators: {why}"


def _kernels_json() -> dict[str, str | None]:
    """ "kernels": those in use on the processor, with their instruction set; "kernels_missing": why
    there are none although the processor has some, and how to get them, else null."""
    kernels = installed_kernels()
    return {"kernels": str(kernels) if kernels else None, "kernels_missing": missing_kernels()}


def _share(seconds: float, stats: Stats) -> str:
    return f"{seconds / stats.seconds:.0%}" if stats.seconds else "0%"


def _generation_json(result: Generation) -> str:
    """One object: text, token_ids, finish_reason, prompt_tokens, seed, settings, stats, kernels and
    kernels_missing, and logprobs where they were computed."""
    data: dict[str, object] = {
        "text": result.text,
        "token_ids": result.token_ids,
        "finish_reason": result.finish_reason,
        "prompt_tokens": result.prompt_tokens,
        "seed": result.seed,
        "settings": dataclasses.asdict(result.settings),
        "stats": result.stats.to_dict(),
        **_kernels_json(),
    }
    if result.logprobs:
        data["logprobs"] = result.logprobs
        data["top_logprobs"] = result.top_logprobs
    return json.dumps(data)


def pair_json(
    manifest: Manifest, measured: Measured, profile: Profile | None, memory: MemoryEstimate
) -> str:
    """The manifest; "made_for": see `edgespec.artifact.hosts`; "measured": row invariance on this
    machine by variant; "kernels" and "kernels_missing" here; "chat_written_by": "template" or
    "texts"; "profile": of tuning; "memory": estimated bytes."""
    here = {name: dataclasses.asdict(invariance) for name, invariance in measured.items()}
    tuned = profile and dataclasses.asdict(profile)
    whole = dataclasses.asdict(manifest)
    data = {
        **whole,
        "made_for": made_for(whole),
        "memory": memory.to_dict(),
        "measured": here,
        "chat_written_by": _chat_writer(manifest),
        **_kernels_json(),
        "profile": tuned,
    }
    return json.dumps(data)


def describe_pair(
    manifest: Manifest, measured: Measured, profile: Profile | None, memory: MemoryEstimate
) -> str:
    """Models, graphs, sizes, row invariance, generation settings, kernels and the tuned setting."""
    lines = [
        f"format {manifest.version}, {manifest.created_by}",
        f"made for: {describe_made_for(made_for(dataclasses.asdict(manifest)))}",
    ]
    lines += _describe_model("target", manifest.target, manifest, measured)
    if manifest.draft is None:
        lines.append("draft: none; prompt lookup proposes")
    else:
        lines += _describe_model("draft", manifest.draft, manifest, {})
    lines.append(f"end of text: tokens {', '.join(map(str, manifest.eos_token_ids))}")
    lines.append(f"chat format: {_chat_format(manifest)}")
    lines.append(f"generation: {manifest.generation}")
    lines += [f"memory: {memory}", _kernels()]
    if profile is not None:
        draft = drafter_title(profile.draft, profile.draft_format, profile.draft_provider)
        target = variant_title(profile.target_format, profile.provider)
        lines.append(
            f"tuned: target {target}, draft {draft}, γ {profile.gamma}, "
            f"{profile.threads} threads ({profile.measured_on})"
        )
    return "\n".join(lines)


def _chat_writer(manifest: Manifest) -> str | None:
    """ "template" or "texts"; None where nothing can write a conversation here."""
    if CHAT_TEMPLATE in manifest.files and jinja_is_installed():
        return "template"
    return None if manifest.chat is None else "texts"


def _chat_format(manifest: Manifest) -> str:
    """What writes conversations here."""
    if not manifest.chats:
        return "no"
    if CHAT_TEMPLATE in manifest.files and jinja_is_installed():
        return "the model's template, by Jinja"
    if manifest.chat is None:
        return f"needs Jinja; {NEEDS_JINJA}"
    return f"texts around messages; for all that the template knows, {NEEDS_JINJA}"


def _describe_model(
    role: str, exported: Exported, manifest: Manifest, measured: Mapping[str, RowInvariance]
) -> list[str]:
    lines = [
        f"{role}: {exported.source} ({exported.family}), {exported.vocab_size} tokens, "
        f"cache {_cache(exported)}, capacity {exported.capacity}"
    ]
    for name, variant in exported.variants.items():
        lines.append(
            f"  {name}: {manifest.bytes(role, name) / 1e6:.1f} MB, {variant.cache_format} cache"
            f"{_attention(variant)}"
        )
        lines += [
            f"    {graph}: {path}{_blocks(variant.blocks.get(graph))}"
            for graph, path in variant.graphs.items()
        ]
        if variant.distance is not None:
            lines.append(f"    {variant.distance}")
        if name in measured:
            lines.append(f"    on this machine: {_row_invariance(measured[name])}")
        elif variant.row_invariance is not None:
            lines.append(f"    elsewhere: {_row_invariance(variant.row_invariance)}")
        elif role == "target":
            lines.append("    row invariance not measured yet; `generate` will measure it")
    return lines


def _attention(variant: Variant) -> str:
    return "" if variant.attention_format == "fp32" else f", {variant.attention_format} attention"


def _blocks(blocks: FusedBlocks | None) -> str:
    return "" if blocks is None else f", {blocks.fused} of {blocks.total} blocks fused"


def _row_invariance(measured: RowInvariance) -> str:
    if not measured.is_row_invariant:
        return f"NOT row-invariant ({measured.measured_on}): speculation is refused"
    differs = measured.one_row_difference
    alone = f"differs by {differs:.1e}" if differs else "does not differ"
    return (
        f"row-invariant, bitwise, for calls of {measured.min_rows} to {measured.max_rows} "
        f"positions{', candidates too' if measured.candidates else ''}; one position alone "
        f"{alone} ({measured.measured_on})"
    )


def describe_tuning(tuning: Tuning) -> str:
    """A table of predicted and measured speed-ups, and the fastest setting."""
    target_width = max(14, *(len(row.target) for row in tuning.trials))
    draft_width = max(20, *(len(row.tried) for row in tuning.trials))
    lines = [
        tuning.measured_on,
        f"{'target':{target_width}} {'draft':{draft_width}} "
        f"{'threads':>7} {'t(1) ms':>8} {'v(5)':>5} {'v(9)':>5} {'c':>5} {'α':>5} {'γ':>2} "
        f"{'predicted':>9} {'measured':>8} {'γ auto':>6} {'tokens/s':>9}",
    ]
    for row in tuning.trials:
        mark = "  <- fastest" if row is tuning.best else ""
        lines.append(_tuning_line(row, target_width, draft_width) + mark)
    best = tuning.best
    if best.draft == "none":
        lines.append(
            "do not speculate here: on this device and these texts plain decoding is fastest"
        )
    else:
        profile = tuning.profile()
        draft = drafter_title(profile.draft, best.draft_format, best.draft_provider)
        lines.append(
            f"best: target {best.target}, draft {draft}, γ {profile.gamma}, "
            f"{best.threads} threads: {best.speedup:.2f}× plain decoding"
        )
    return "\n".join([*lines, *_thread_lines(tuning)])


def _thread_lines(tuning: Tuning) -> list[str]:
    """How many threads were chosen, and what the others came to; none if one count was tried."""
    fastest: dict[int, float] = {}
    for trial in tuning.trials:
        fastest[trial.threads] = max(fastest.get(trial.threads, 0.0), trial.tokens_per_second)
    chosen = fastest.pop(tuning.best.threads)
    if not fastest:
        return []
    others = ", ".join(f"{rate:.1f} with {threads}" for threads, rate in sorted(fastest.items()))
    return [f"threads: {tuning.best.threads} ({chosen:.1f} tokens/s; {others})"]


def _tuning_line(row: Trial, target_width: int, draft_width: int) -> str:
    verify = row.costs.verify
    v5, v9 = (f"{verify[m]:5.2f}" if len(verify) > m else "    -" for m in (4, 8))
    return (
        f"{row.target:{target_width}} {row.tried:{draft_width}} "
        f"{row.threads:7} {row.step_ms:8.2f} {v5} {v9} {row.costs.draft:5.2f} "
        f"{row.acceptance:5.2f} {row.gamma:2} {row.predicted:8.2f}× {row.measured:7.2f}× "
        f"{row.adaptive:5.2f}× {row.tokens_per_second:9.1f}"
    )


def tuning_json(tuning: Tuning) -> str:
    """Every setting that was tried, with its cost curve, and the profile."""
    data = dataclasses.asdict(tuning)
    return json.dumps({**data, "profile": dataclasses.asdict(tuning.profile())})


def describe_bench(rows: Sequence[BenchRow], measured_on: str) -> str:
    """A table of speeds, relative to plain decoding in the same run."""
    lines = [measured_on]
    if any(row.synthetic for row in rows):
        lines.append("synthetic acceptance: machine cost only, the text means nothing")
    lines += [
        f"{row.way:16} {row.tokens_per_second:8.1f} tokens/s  {row.ratio:5.2f}× plain  "
        f"α {row.acceptance_rate:.2f}  {row.tokens_per_target_call:.2f} tokens a call  "
        f"loop {row.loop_share:.1%}"
        for row in rows
    ]
    return "\n".join(lines)


def bench_json(rows: Sequence[BenchRow], measured_on: str) -> str:
    """The same as one JSON object."""
    return _measured_json(rows, measured_on)


def _measured_json(rows: Sequence[BenchRow] | Sequence[ComparedWay], measured_on: str) -> str:
    return json.dumps(
        {"measured_on": measured_on, "rows": [dataclasses.asdict(row) for row in rows]}
    )


def describe_comparison(rows: Sequence[ComparedWay], measured_on: str) -> str:
    """A table of what each way did on each kind of texts, and on all of them."""
    kind_width = max(4, *(len(row.kind or "") for row in rows))
    way_width = max(len(row.way) for row in rows)
    lines = [
        measured_on,
        f"{'kind':{kind_width}} {'way':{way_width}} {'texts':>5} {'α':>5} {'c':>6} "
        f"{'tokens a call':>13} {'decoding':>8} {'whole':>6} {'tokens/s':>8}",
    ]
    lines += [
        f"{'all' if row.kind is None else row.kind:{kind_width}} {row.way:{way_width}} "
        f"{row.texts:5} {_number(row.acceptance_rate, 5)} {_number(row.cost, 6, 3)} "
        f"{row.tokens_per_target_call:13.2f} {_number(row.decoding, 7, sign='×')} "
        f"{row.whole:5.2f}× {row.tokens_per_second:8.1f}"
        for row in rows
    ]
    return "\n".join(lines)


def _number(value: float | None, width: int, digits: int = 2, sign: str = "") -> str:
    """A number in a column; a dash where there is none."""
    return "-".rjust(width + len(sign)) if value is None else f"{value:{width}.{digits}f}{sign}"


def comparison_json(rows: Sequence[ComparedWay], measured_on: str) -> str:
    """The same as one JSON object; "kind" is null for all kinds."""
    return _measured_json(rows, measured_on)


def _cache(exported: Exported) -> str:
    """The layers of a cache; those of one shape together."""
    counts = Counter((shape.kv_heads, shape.head_size) for shape in exported.cache_shapes)
    return " + ".join(
        f"{layers} layers × {heads} heads × {size}" for (heads, size), layers in counts.items()
    )
