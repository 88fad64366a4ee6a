"""`edgespec batch`: a file of requests to a file of answers."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from edgespec.cli.options import GENERATION, JSON, PAIR, drafting
from edgespec.cli.parameters.loading_options import LOADING, Loading
from edgespec.cli.parameters.model_defaults import check_greedy
from edgespec.cli.parameters.request_options import STRICT, TEXTS
from edgespec.cli.progress_lines import say
from edgespec.errors import UsageError, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping
    from typing import TypeAlias

    from edgespec.batch.answering import AnsweringOptions
    from edgespec.batch.batch_input import BatchInput
    from edgespec.batch.ray_cluster import Actors
    from edgespec.batch.request_line import RefusedLine, RequestLine
    from edgespec.openai.json_value import JsonObject
    from edgespec.pair.generation_options import GenerationOptions

    Lines: TypeAlias = Iterable[RequestLine | RefusedLine]
    Answers: TypeAlias = Generator[JsonObject, None, None]

__all__ = ["batch"]


class ActorCount(click.ParamType):  # type: ignore[type-arg]  # older versions of click have none
    """One actor for each node or socket, or a number of them."""

    name = "actors"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Actors:
        if value in ("node", "socket"):
            return cast("Actors", value)
        count = str(value)
        if not (count.isascii() and count.isdecimal() and 1 <= len(count) <= 6 and int(count)):
            self.fail(f"{shortened(value)} is no number of actors; give node, socket or a number")
        return int(count)

    def get_metavar(self, *given: object, **named: object) -> str:
        return "[node|socket|N]"


@click.command(short_help="Answer a file of requests; continues after a kill.")
@PAIR
@click.argument("requests", metavar="IN.jsonl", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "out",
    metavar="OUT.jsonl",
    type=click.Path(path_type=Path),
    required=True,
    help="Where the answers go; - is standard output.",
)
@TEXTS
@click.option("--any-order", is_flag=True, help="Leave answers in the order in which they ended.")
@click.option("--force", is_flag=True, help="Replace OUT.jsonl, and what is left of other batches.")
@click.option(
    "--ray",
    "address",
    metavar="ADDRESS",
    help="Answer on a Ray cluster: HOST:PORT, auto, or local, which starts one here.",
)
@click.option(
    "--actors",
    type=ActorCount(),
    help="With --ray: processes that load PAIR, one a node, one a socket or N.  [default: node]",
)
@STRICT
@GENERATION
@JSON
@LOADING
def batch(
    requests: Path,
    out: Path,
    texts: int,
    any_order: bool,
    force: bool,
    address: str | None,
    actors: Actors | None,
    strict: bool,
    draft: str | None,
    no_draft: bool,
    gamma: str | None,
    rule: str | None,
    as_json: bool,
    loading: Loading,
    **options: object,
) -> None:
    """Answer each line of IN.jsonl with PAIR, several at once.

    A line is a request as `edgespec serve` takes it, {"prompt": "…"} or {"messages": […]}, or one
    in OpenAI's batch format; answers have that format. Options count for lines that do not say
    otherwise. Lines that fail are in OUT.errors.jsonl, the others go on. The same command
    continues a batch that was interrupted. With --seed, line k draws with SEED + k - 1. The
    answers to a line with "n" have following seeds.

    IN.jsonl may be standard input (-) or a pipe. OUT.jsonl may be standard output (-), a pipe or a
    device: answers, those of lines that fail among them, are written as soon as it is their turn,
    and nothing can be continued.

    \b
    Examples:
      edgespec batch build/smollm2 requests.jsonl -o answers.jsonl
      edgespec batch build/smollm2 - -o - < requests.jsonl | jq .response
    """
    from edgespec.artifact.readable_input import readable_twice
    from edgespec.artifact.writing.stream_output import goes_to_standard_output
    from edgespec.batch.answering import AnsweringOptions

    check_greedy(options)
    if actors is not None and address is None:
        raise UsageError("--actors is for Ray; give --ray ADDRESS, too")
    if as_json and goes_to_standard_output(out):
        raise UsageError("the answers and --json both go to standard output; leave one out")
    _check_not_the_same(requests, out)
    drafts: GenerationOptions = {"draft": drafting(draft, no_draft), "gamma": gamma, "rule": rule}
    how = AnsweringOptions(loading.folder.resolve().name, texts, _given(options), drafts, strict)

    def answering(lines: Lines) -> Answers:
        if address is None:
            return _answers_here(lines, loading, how)
        return _answers_on_ray(lines, loading, how, address, actors or "node")

    with readable_twice(requests) as file:
        done = _run(file, out, loading, how, answering, replace=force, any_order=any_order)
    if as_json:
        click.echo(json.dumps(done.to_dict()))
    else:
        say(done.line())


def _check_not_the_same(requests: Path, out: Path) -> None:
    """Raises UsageError if the answers would replace the requests."""
    if requests.is_file() and out.is_file() and requests.samefile(out):
        raise UsageError(f"{out} is the input; give another -o FILE")


def _run(
    file: Path,
    out: Path,
    loading: Loading,
    how: AnsweringOptions,
    answering: Callable[[Lines], Answers],
    *,
    replace: bool,
    any_order: bool,
) -> _Tally:
    """Answers the lines of a file that are not answered yet."""
    from edgespec.artifact.writing.stream_output import is_stream
    from edgespec.batch.batch_input import lines_to_answer, read_input
    from edgespec.batch.result_lines import errors_path, partial_path, result_lines
    from edgespec.batch.streamed_lines import streamed_lines

    source = read_input(file)
    tally = _Tally(source, out)
    if is_stream(out):
        with streamed_lines(out, any_order=any_order) as stream:
            lines = stream.in_turn(lines_to_answer(source, ()))
            _answer(answering(lines), stream.add, tally)
        return tally
    if out.is_symlink():  # its file is replaced, and what belongs to it is beside that
        out = Path(os.path.realpath(out))
    recipe = _recipe(source, loading, how)
    with result_lines(out, recipe, replace=replace, any_order=any_order) as results:
        tally.earlier = len(results)
        if results:
            say(f"{len(results)} of {source.lines} lines are answered already")
        answers = answering(lines_to_answer(source, results))
        try:
            _answer(answers, results.add, tally)
        except KeyboardInterrupt:
            say(
                f"\n{partial_path(out)}: {len(results)} of {source.lines} lines; go on with the "
                "same command"
            )
            raise
    failures = errors_path(out)
    tally.errors = str(failures) if failures.exists() else None
    return tally


def _answer(answers: Answers, add: Callable[[JsonObject], None], tally: _Tally) -> None:
    """Adds each answer, with a bar of progress."""
    with (
        closing(answers),
        click.progressbar(length=tally.lines, label="lines", file=sys.stderr, show_pos=True) as bar,
    ):
        bar.update(tally.earlier)
        for answer in answers:
            add(answer)
            tally.add(answer)
            bar.update(1)


def _answers_here(lines: Lines, loading: Loading, how: AnsweringOptions) -> Answers:
    from edgespec.batch.answering import Answering

    pair = loading.pair(plainly=how.drafting.get("draft") is False)
    return Answering(pair, how).answers(lines)


def _answers_on_ray(
    lines: Lines,
    loading: Loading,
    how: AnsweringOptions,
    address: str,
    actors: Actors,
) -> Answers:
    from edgespec.artifact.manifest import pair_digest
    from edgespec.batch.ray_answering import answers_on_ray
    from edgespec.batch.ray_cluster import find_pool, ray_cluster

    folder = loading.folder.resolve()
    sha256 = pair_digest(folder)
    options = loading.to_decode(plainly=how.drafting.get("draft") is False)
    options["corpus"] = [Path(file).resolve() for file in options.get("corpus", ())]
    if (remember := options.get("remember")) is not None:
        options["remember"] = Path(remember).resolve()
    with ray_cluster(address):
        pool = find_pool(folder, sha256, actors)
        yield from answers_on_ray(lines, pool, folder, sha256, options, how)


class _Tally:
    """What this run did.

    Attributes:
        earlier: lines that an earlier run answered.
        errors: where the lines that failed are; None if none did, or if they are in a stream.
    """

    def __init__(self, source: BatchInput, out: Path) -> None:
        self.lines = source.lines
        self.earlier = 0
        self.errors: str | None = None
        self._out = out
        self._failed = 0
        self._tokens = 0
        self._began = time.perf_counter()

    def add(self, answer: JsonObject) -> None:
        from edgespec.batch.result_lines import failed, tokens

        self._failed += failed(answer)
        self._tokens += tokens(answer)

    def line(self) -> str:
        seconds = time.perf_counter() - self._began
        speed = f"{self._tokens} tokens in {seconds:.1f} s"
        failed = f"; {self._failed} lines failed" if self._failed else ""
        if self.errors:
            failed = f"; lines that failed: {self.errors}"
        return f"{self._out}: answers to {self.lines} lines, {speed}{failed}"

    def to_dict(self) -> Mapping[str, object]:
        return {
            "out": str(self._out),
            "errors": self.errors,
            "lines": self.lines,
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


def _recipe(source: BatchInput, loading: Loading, how: AnsweringOptions) -> JsonObject:
    """What the answers depend on; drafting options but the rule are not among it."""
    from edgespec.artifact.manifest import pair_digest

    return {
        "edgespec_batch": 1,
        "input": source.sha256,
        "pair": pair_digest(loading.folder),
        "target_format": loading.options.get("target_format"),
        "rule": how.drafting.get("rule"),
        "options": cast("JsonObject", how.instead),
        **({"strict": True} if how.strict else {}),
    }
