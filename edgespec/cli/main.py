"""The command line: `edgespec export`, `generate`, `inspect`, `tune` and `bench`; others join."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgespec import __version__
from edgespec.artifact.chat_format import check_text, system_messages, user_message
from edgespec.artifact.text_file import read_lines, read_text
from edgespec.cli.chat_command import chat as chat_command
from edgespec.cli.cli_errors import one_line_errors
from edgespec.cli.distill_command import distill
from edgespec.cli.logging_lines import logging_lines
from edgespec.cli.options import (
    CHAT,
    GENERATION,
    JSON,
    LOADING,
    PAIR,
    PROVIDERS,
    SAMPLING,
    SHOWN,
    SYSTEM,
    THREADS,
    VARIANTS,
    Loading,
    check_shown,
    drafting,
    say,
)
from edgespec.cli.render import describe_pair, generation_json, pair_json, show_stats, write_stream
from edgespec.cli.reproduce_command import reproduce
from edgespec.cli.serve_command import serve
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.artifact.manifest import Manifest

__all__ = ["main"]

FORMATS = (
    "fp32, fp16, bf16, int8, int8-weights or int4-weights; may be repeated, the first "
    "is the default."
)
CACHES = (
    "fp32, fp16 or int8, for the target's keys and values; may be repeated, each makes variants "
    "of its own."
)
TEXT = click.option(
    "--text", type=click.Path(path_type=Path), help="A prompt on each line; default: built-in."
)


LENGTH = click.option(
    "-n", "--max-new-tokens", type=click.IntRange(min=2), default=64, show_default=True
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="edgespec")
@click.pass_context
def main(context: click.Context) -> None:
    """On-device text generation that is exactly the model's own, only faster.

    \b
    Example:
      edgespec export flan-t5-large flan-t5-small -o build/flan
      edgespec generate build/flan "translate English to German: Good morning."
    """
    context.with_resource(logging_lines())
    if os.environ.get("NO_COLOR"):
        context.color = False


main.add_command(chat_command)
main.add_command(distill)
main.add_command(reproduce)
main.add_command(serve)


@main.command(short_help="Convert a target and a draft to ONNX.")
@click.argument("target")
@click.argument("draft", required=False)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder to write."
)
@click.option("--verify", is_flag=True, help="Compare each graph with the original (extra: torch).")
@click.option("--target-format", "target_formats", multiple=True, default=["fp32"], help=FORMATS)
@click.option("--draft-format", "draft_formats", multiple=True, default=["fp32"], help=FORMATS)
@click.option("--cache-format", "cache_formats", multiple=True, default=["fp32"], help=CACHES)
@click.option(
    "--no-measure", is_flag=True, help="Do not load the models: they are tested when first used."
)
@click.option("--force", is_flag=True, help="Replace an exported pair that is there already.")
@THREADS
def export(
    target: str,
    draft: str | None,
    output: Path,
    target_formats: tuple[str, ...],
    draft_formats: tuple[str, ...],
    cache_formats: tuple[str, ...],
    verify: bool,
    no_measure: bool,
    force: bool,
    threads: int | None,
) -> None:
    """Convert TARGET and DRAFT to ONNX graphs with a key-value cache.

    TARGET and DRAFT are a checkpoint folder, a GGUF file, a hub id or a short name such as
    flan-t5-large. Without DRAFT the pair speculates by prompt lookup.
    """
    with one_line_errors():
        from edgespec_export.api import export_pair
        from edgespec_export.progress import byte_bars

        with logging_lines(), byte_bars() as progress:
            export_pair(
                target,
                draft,
                output,
                target_formats=target_formats,
                draft_formats=draft_formats,
                cache_formats=cache_formats,
                verify=verify,
                measure=not no_measure,
                replace=force,
                threads=threads,
                progress=progress,
            )
        click.echo(f"{output}: ready; try: edgespec generate {output} PROMPT", err=True)


@main.command(short_help="Generate text; exactly the target's own.")
@PAIR
@click.argument("prompt", required=False)
@click.option("--file", type=click.Path(path_type=Path), help="Read the prompt from a file.")
@GENERATION
@click.option("--ignore-eos", is_flag=True, help="Go on behind the end of the text.")
@CHAT
@SYSTEM
@SHOWN
@click.option("--logprobs", is_flag=True, help="With --json: the target's log-probabilities.")
@LOADING
def generate(
    prompt: str | None,
    file: Path | None,
    draft: str | None,
    no_draft: bool,
    show_draft: bool,
    stats: bool,
    as_json: bool,
    chat: bool | None,
    system: str | None,
    loading: Loading,
    **options: Any,
) -> None:
    """Generate from PROMPT, from --file or from standard input (also as PROMPT "-").

    The text is exactly the target's own: greedy it is the same text as with --no-draft, sampled it
    has the same distribution.
    """
    with one_line_errors():
        options["draft"] = drafting(draft, no_draft)
        check_shown(show_draft, as_json)
        if options["logprobs"] and not as_json:
            raise UsageError("--logprobs come with --json; give both")
        if system is not None and chat is False:
            raise UsageError("--system is part of the chat format; leave --no-chat out")
        text = _prompt(prompt, file)
        check_text(text, "the prompt")
        pair = loading.pair(plainly=no_draft)
        if system is None:
            stream = pair.stream(text, chat=_in_chat_format(chat, pair.manifest), **options)
        else:
            stream = pair.stream([*system_messages(system), user_message(text)], **options)
        if as_json:
            for _ in stream:
                pass
            click.echo(generation_json(stream.result))
        else:
            write_stream(stream, show_draft)
            if stats:
                show_stats(stream.result)


@main.command(short_help="Show what a pair consists of, and whether it is exact.")
@PAIR
@JSON
@click.option(
    "--measure",
    is_flag=True,
    help="Test anew whether the target is row-invariant on this machine, and keep the verdict.",
)
@click.option("--check", is_flag=True, help="Read all weights, too: are they what was exported?")
@THREADS
@click.option("--provider", help="See `edgespec providers`; default: as tuned, or the processor.")
def inspect(
    pair: Path,
    as_json: bool,
    measure: bool,
    check: bool,
    threads: int | None,
    provider: str | None,
) -> None:
    """Show what an exported PAIR consists of, and whether its target is exact."""
    with one_line_errors():
        from edgespec.artifact.integrity import check_weights
        from edgespec.artifact.manifest import read_manifest
        from edgespec.pair.inspection import known_invariances, measured_invariances
        from edgespec.pair.setup import LoadRequest, profile_of_this_machine

        manifest = read_manifest(pair)
        if check:
            unknown = check_weights(pair, manifest.files)
            others = "all other" if unknown else "all"
            say(f"{others} files are as exported")
            if unknown:
                say(f"no digest of {', '.join(unknown)}: export again for one")
        profile = profile_of_this_machine(pair, manifest)
        asked = LoadRequest(threads, provider=provider)
        if measure:
            verdicts = measured_invariances(pair, manifest, profile, asked)
        else:
            verdicts = known_invariances(pair, manifest, profile, asked)
        click.echo((pair_json if as_json else describe_pair)(manifest, verdicts, profile))


@main.command(short_help="Find a pair's fastest setting on this device.")
@PAIR
@TEXT
@SAMPLING
@LENGTH
@click.option("--threads", type=click.IntRange(min=1), multiple=True, help="Default: 1 and all.")
@click.option(
    "--provider", "named", multiple=True, help="To try; default: all of `edgespec providers`."
)
@CHAT
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the curves (extra: plots).")
@click.option("--dry-run", is_flag=True, help="Write no profile.")
@JSON
def tune(
    pair: Path,
    text: Path | None,
    max_new_tokens: int,
    threads: tuple[int, ...],
    named: tuple[str, ...],
    chat: bool | None,
    plot: Path | None,
    dry_run: bool,
    as_json: bool,
    **sampling: Any,
) -> None:
    """Measure PAIR on this device and remember its fastest exact setting.

    Times calls of 1 to 17 positions for every exported variant, predicts the speed-up of each
    draft from how often the target would accept it on your texts, and measures it. The profile is
    written into PAIR and used by `generate` from then on.
    """
    with one_line_errors():
        from edgespec.artifact.manifest import read_manifest
        from edgespec.cli.render import describe_tuning, tuning_json
        from edgespec.core.sampling import Sampling
        from edgespec.measure.tune import tune as measure
        from edgespec.pair.profile import write_profile

        manifest = read_manifest(pair)
        tuning = measure(
            pair,
            _texts(manifest, text),
            sampling=Sampling(**sampling),
            max_new_tokens=max_new_tokens,
            threads=threads,
            providers=named,
            chat=_in_chat_format(chat, manifest),
        )
        if plot is not None:
            from edgespec.cli.tune_plot import plot_tuning

            plot_tuning(tuning, plot)
        if not dry_run:
            write_profile(tuning.profile(), pair)
        click.echo((tuning_json if as_json else describe_tuning)(tuning))


@main.command(short_help="Time a pair beside plain decoding.")
@PAIR
@TEXT
@SAMPLING
@LENGTH
@click.option("--gamma", multiple=True, default=["2", "4", "auto"], show_default=True)
@click.option(
    "--acceptance", type=float, help="Decree this α: machine cost without model agreement."
)
@CHAT
@VARIANTS
@PROVIDERS
@THREADS
@JSON
def bench(
    pair: Path,
    text: Path | None,
    max_new_tokens: int,
    gamma: tuple[str, ...],
    acceptance: float | None,
    chat: bool | None,
    target_format: str | None,
    draft_format: str | None,
    provider: str | None,
    draft_provider: str | None,
    threads: int | None,
    as_json: bool,
    **sampling: Any,
) -> None:
    """Time PAIR beside plain decoding of the same target, on your texts or built-in prompts."""
    with one_line_errors():
        from edgespec import load
        from edgespec.cli.render import bench_json, describe_bench
        from edgespec.core.sampling import Sampling
        from edgespec.measure.bench import bench as time_texts
        from edgespec.measure.bench import bench_synthetic
        from edgespec.pair.runtime import machine_of

        loaded = load(
            pair,
            threads=threads,
            target_format=target_format,
            draft_format=draft_format,
            provider=provider,
            draft_provider=draft_provider,
            allow_inexact=acceptance is not None,  # what is decreed is not exact anyway
        )
        device, draft_device = loaded.devices
        measured_on = str(machine_of(device, draft_device if loaded.draft else None))
        if acceptance is None:
            rows = time_texts(
                loaded,
                _texts(loaded.manifest, text),
                sampling=Sampling(**sampling),
                max_new_tokens=max_new_tokens,
                gammas=gamma,
                chat=_in_chat_format(chat, loaded.manifest),
            )
        else:
            fixed = [int(g) for g in gamma if g.isdecimal()]
            rows = bench_synthetic(loaded, acceptance, max_new_tokens=max_new_tokens, gammas=fixed)
        click.echo((bench_json if as_json else describe_bench)(rows, measured_on))


@main.command(short_help="List what models can run on here.")
@JSON
def providers(as_json: bool) -> None:
    """List the execution providers that ONNX Runtime has on this machine.

    Each runs the operators that it knows; the processor runs the others. Plug-ins are found by the
    names of their packages, such as onnxruntime-ep-openvino.
    """
    with one_line_errors():
        from edgespec.cli.render import describe_providers, providers_json
        from edgespec.pair.runtime import all_providers

        here, hindered = all_providers()
        for line in hindered:
            say(line)
        click.echo((providers_json if as_json else describe_providers)(here))


def _in_chat_format(asked: bool | None, manifest: Manifest) -> bool:
    """As asked; without its chat format, a chat model takes a question for a finished text."""
    return manifest.chat is not None if asked is None else asked


def _texts(manifest: Manifest, file: Path | None) -> list[str]:
    """The lines of a file, or prompts of the kind that the pair is for."""
    if file is not None:
        return read_lines(file)
    from edgespec.pair.sample_prompts import prompts_for

    return [prompt for prompts in prompts_for(manifest).values() for prompt in prompts]


def _prompt(prompt: str | None, file: Path | None) -> str:
    if prompt is not None and file is not None:
        raise UsageError("there is a PROMPT and a --file; give one")
    if prompt is not None and prompt != "-":
        return prompt
    if file is not None:
        return read_text(file).rstrip("\n")
    if sys.stdin is None or (prompt is None and sys.stdin.isatty()):
        raise UsageError("no prompt; give PROMPT, --file or standard input")
    try:
        return sys.stdin.read().rstrip("\n")
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8 text") from None
