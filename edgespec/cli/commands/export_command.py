"""`edgespec export`: checkpoints to an exported pair."""

from __future__ import annotations

from pathlib import Path

import click

from edgespec.artifact.hosts import HOSTS
from edgespec.cli.checks import check_cache_formats, check_formats, check_output_folder
from edgespec.cli.options import THREADS
from edgespec.cli.progress_lines import say
from edgespec.errors import UsageError
from edgespec.library.exporting import BUILT_IN

__all__ = ["export"]

FORMATS = (
    "fp32, fp16, bf16, bf16-products, int8, int4, int4-int8, int8-groups, int8-weights or "
    "int4-weights; may "
    "be repeated, the first is what `generate` takes. Default: "
)
CACHES = (
    "fp32, fp16 or int8, for the target's keys and values, or int8-bf16, with attention in "
    "bfloat16; may be repeated, each adds variants. Default: fp32."
)


@click.command(short_help="Convert a target and a draft to ONNX.")
@click.argument("target")
@click.argument("draft", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    callback=check_output_folder,
    help="Folder to write; default: one in the cache (EDGESPEC_HOME).",
)
@click.option(
    "--adapter",
    metavar="DIR",
    help="A LoRA adapter of TARGET, merged into it: a folder as peft writes it, or a hub id.",
)
@click.option("--no-draft", is_flag=True, help="Take no draft from the catalogue.")
@click.option(
    "--for",
    "host",
    type=click.Choice(HOSTS),
    help="web: what a browser can use, in files of at most 100 MB; one format of each model, by "
    "default int8. gpu: for a provider with memory of its own (CUDA, WebGPU), fp32 or fp16. npu: "
    "for a compiler of fixed shapes (Qualcomm), fp32, fp16, w8a16, w8a8, w4a16 or w4a8.",
)
@click.option(
    "--gamma",
    "gammas",
    type=int,
    multiple=True,
    metavar="N",
    help="For an NPU: verify N drafted tokens in one call; may be repeated, each is a graph. "
    "Default: 1 and 4.",
)
@click.option(
    "--capacity",
    type=int,
    metavar="N",
    help="For an NPU: positions of the cache; each call attends to all. Default: 512.",
)
@click.option(
    "--long-texts",
    is_flag=True,
    help="For a model with longrope (Phi-3, Phi-4-mini, MiniCPM): its factors for texts beyond its "
    "original length, for every text. Default: those for shorter texts, which end there.",
)
@click.option("--verify", is_flag=True, help="Compare each graph with the original (extra: torch).")
@click.option(
    "--target-format",
    "target_formats",
    multiple=True,
    callback=check_formats,
    help=f"{FORMATS}int8 where it is near fp32, else fp32.",
)
@click.option(
    "--draft-format",
    "draft_formats",
    multiple=True,
    callback=check_formats,
    help=f"{FORMATS}int8.",
)
@click.option(
    "--cache-format", "cache_formats", multiple=True, callback=check_cache_formats, help=CACHES
)
@click.option(
    "--calibration",
    metavar="FILE",
    default=BUILT_IN,
    help="Texts like those of your task, for int4; none rounds each weight to the nearest. "
    "Default: built-in texts.",
)
@click.option(
    "--draft-tokens",
    type=int,
    metavar="N",
    help="DRAFT proposes only its N most frequent tokens, so its head costs less. Default: all.",
)
@click.option(
    "--no-measure", is_flag=True, help="Do not load the models: they are tested when first used."
)
@click.option("--force", is_flag=True, help="Replace an exported pair that is there already.")
@THREADS
def export(
    target: str,
    draft: str | None,
    output: Path | None,
    adapter: str | None,
    no_draft: bool,
    host: str | None,
    gammas: tuple[int, ...],
    capacity: int | None,
    long_texts: bool,
    target_formats: tuple[str, ...] | None,
    draft_formats: tuple[str, ...] | None,
    cache_formats: tuple[str, ...] | None,
    calibration: str,
    draft_tokens: int | None,
    verify: bool,
    no_measure: bool,
    force: bool,
    threads: int | None,
) -> None:
    """Convert TARGET and DRAFT to ONNX graphs with a key-value cache.

    TARGET and DRAFT are a checkpoint folder, a GGUF file, a hub id or a short name such as
    flan-t5-large. Without DRAFT a catalogue proposes one for well-known targets; for others the
    pair drafts by prompt lookup.

    \b
    Examples:
      edgespec export flan-t5-large flan-t5-small -o build/flan
      edgespec export model.gguf --target-format int8 -o build/model
    """
    from edgespec.library.exporting import export_request, run_export
    from edgespec.library.pair_cache import cached_folder, describe_draft, name_for_commands

    if draft is not None and no_draft:
        raise UsageError("there is a DRAFT and --no-draft; give one")
    request = export_request(
        target,
        draft,
        no_draft=no_draft,
        target_formats=target_formats,
        draft_formats=draft_formats,
        cache_formats=cache_formats,
        calibration=calibration,
        draft_tokens=draft_tokens,
        host=host,
        gammas=gammas,
        capacity=capacity,
        adapter=adapter,
        long_texts=long_texts,
    )
    if draft is None and not no_draft:
        say(describe_draft(request))
    folder = output or cached_folder(request)
    run_export(
        request, folder, verify=verify, measure=not no_measure, replace=force, threads=threads
    )
    _say_ready(folder, folder if output else name_for_commands(request, folder))


def _say_ready(folder: Path, name: Path | str) -> None:
    """Says what the pair takes, and how it is used.

    Args:
        name: of the pair, as commands take it.
    """
    from edgespec.artifact.manifest import read_manifest
    from edgespec.library.kept_pairs import bytes_of, older_line, size

    use = "transcribe {} FILE" if read_manifest(folder).target.is_speech else "generate {} PROMPT"
    say(f"{folder}: ready, {size(bytes_of(folder))}; try: edgespec {use.format(name)}")
    if line := older_line(folder):
        say(line)
