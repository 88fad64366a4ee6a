"""`edgespec batch`: a file of requests to a file of answers."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from edgespec.cli.generation_options import check_greedy
from edgespec.cli.options import GENERATION, JSON, LOADING, PAIR, TEXTS, Loading, drafting, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgespec.batch.answering import BatchInput, Outcome
    from edgespec.openai.json_value import JsonObject
    from edgespec.pair.generation import GenerationOptions

__all__ = ["batch"]


@click.command(short_help="Answer a file of requests; continues after a kill.")
@PAIR
@click.argument("requests", metavar="IN.jsonl", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "out",
    metavar="OUT.jsonl",
    type=click.Path(path_type=Path),
    required=True,
    help="Where the answers go.",
)
@TEXTS
@click.option("--force", is_flag=True, help="Replace OUT.jsonl, and what is left of other batches.")
@GENERATION
@JSON
@LOADING
def batch(
    requests: Path,
    out: Path,
    texts: int,
    force: bool,
    draft: str | None,
    no_draft: bool,
    gamma: str | None,
    rule: str | None,
    as_json: bool,
    loading: Loading,
    **options: object,
) -> None:
    """Answer each line of IN.jsonl with PAIR, several at once and in their order.

    A line is a request as `edgespec serve` takes it, {"prompt": "…"} or {"messages": […]}, or one
    in OpenAI's batch format; answers have that format. Options count for lines that do not say
    otherwise. Lines that fail are in OUT.errors.jsonl, the others go on. The same command
    continues a batch that was interrupted. With --seed, line n draws with SEED + n - 1.
    """
    from edgespec.batch.answering import answer_lines, read_input
    from edgespec.batch.result_lines import errors_path, partial_path, result_lines

    check_greedy(options)
    drafts: GenerationOptions = {"draft": drafting(draft, no_draft), "gamma": gamma, "rule": rule}
    instead = _given(options)
    source = read_input(requests)
    tally = _Tally(source)
    with result_lines(out, _recipe(source, loading, instead, rule), replace=force) as results:
        tally.earlier = results.done
        if results.done:
            say(f"{results.done} of {source.lines} lines are answered already")
        pair = loading.pair(plainly=no_draft)
        model = loading.folder.resolve().name
        answers = answer_lines(
            pair, model, source, results, texts=texts, instead=instead, drafting=drafts
        )
        try:
            with click.progressbar(
                length=source.lines, label="lines", file=sys.stderr, show_pos=True
            ) as bar:
                bar.update(results.done)
                for outcome in answers:
                    tally.add(outcome)
                    bar.update(1)
        except KeyboardInterrupt:
            say(
                f"\n{partial_path(out)}: {results.done} of {source.lines} lines; go on with the "
                "same command"
            )
            raise
    failures = errors_path(out)
    where = str(failures) if failures.exists() else None
    if as_json:
        click.echo(json.dumps(tally.to_dict(out, where)))
    else:
        say(tally.line(out, where))


class _Tally:
    """What this run did."""

    def __init__(self, source: BatchInput) -> None:
        self._lines = source.lines
        self.earlier = 0
        self._failed = 0
        self._tokens = 0
        self._began = time.perf_counter()

    def add(self, outcome: Outcome) -> None:
        self._failed += outcome.error is not None
        self._tokens += outcome.tokens

    def line(self, out: Path, errors: str | None) -> str:
        seconds = time.perf_counter() - self._began
        speed = f"{self._tokens} tokens in {seconds:.1f} s"
        failed = f"; lines that failed: {errors}" if errors else ""
        return f"{out}: answers to {self._lines} lines, {speed}{failed}"

    def to_dict(self, out: Path, errors: str | None) -> Mapping[str, object]:
        return {
            "out": str(out),
            "errors": errors,
            "lines": self._lines,
            "earlier": self.earlier,
            "failed": self._failed,
            "tokens": self._tokens,
            "seconds": time.perf_counter() - self._began,
        }


def _given(options: Mapping[str, object]) -> GenerationOptions:
    """Options of `Pair.stream` that the command was given."""
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if given.pop("greedy"):
        given["temperature"] = 0.0
    return cast("GenerationOptions", given)


def _recipe(
    source: BatchInput, loading: Loading, instead: GenerationOptions, rule: str | None
) -> JsonObject:
    """What the answers depend on; drafting options but the rule are not among it."""
    from edgespec.artifact.manifest import MANIFEST

    manifest = hashlib.sha256((loading.folder / MANIFEST).read_bytes()).hexdigest()
    return {
        "edgespec_batch": 1,
        "input": source.sha256,
        "pair": manifest,
        "target_format": loading.options.get("target_format"),
        "rule": rule,
        "options": cast("JsonObject", instead),
    }
