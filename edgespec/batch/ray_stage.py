"""Requests are answered in the actors of Ray Data.

import json
import ray
from edgespec.batch.ray_stage import RayAnswers

prompts = ["The file is open.", "Save changes?"]
requests = [json.dumps({"prompt": prompt, "max_tokens": 64}) for prompt in prompts]
rows = [{"number": number, "request": request} for number, request in enumerate(requests, 1)]
answers = ray.data.from_items(rows).map_batches(
    RayAnswers,
    fn_constructor_args=("/data/en-de",),
    batch_size=64,
    compute=ray.data.ActorPoolStrategy(size=2),
)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgespec.artifact.manifest import pair_digest, read_manifest
from edgespec.batch.answering import Answering, AnsweringOptions
from edgespec.batch.cores import CoreShare, Shares
from edgespec.batch.request_line import RefusedLine, RequestLine, read_line
from edgespec.batch.result_lines import line_number
from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec.openai.json_value import json_line
from edgespec.pair.generation_options import GenerationOptions
from edgespec.pair.opening.loading import LoadOptions, load

__all__ = ["RayAnswers", "check_same_pair"]


class RayAnswers:
    """Answers requests: a class for `ray.data.Dataset.map_batches`.

    Each actor loads the pair once; its weights are mapped into memory. The texts of a batch share
    calls, so a batch should have several times as many rows as `texts`. Each text is the one that
    its request has alone, in whatever batch or actor.

    Args:
        folder: an exported pair, at this path on every node.
        texts: requests that are answered at once in each actor.
        shares: of a machine's cores; each of its actors takes one: "socket", or how many. With
            one, an actor has the whole machine.
        model: the model's name in answers; None takes the folder's.
        loading: keyword arguments of `edgespec.load`.
        instead: options of `Pair.stream` that replace the model's own where a request says
            nothing. With a seed, row number k draws with seed + k - 1.
        drafting: the options `draft`, `gamma` and `rule` of `Pair.stream`.
        strict: rows with unknown fields are refused.
        sha256: of the manifest; a folder with another pair is refused. None takes any.

    Raises:
        EdgespecError: the folder is not the pair, or cannot be run on this node.
    """

    def __init__(
        self,
        folder: str,
        *,
        texts: int = 8,
        shares: Shares = 1,
        model: str | None = None,
        loading: LoadOptions | None = None,
        instead: GenerationOptions | None = None,
        drafting: GenerationOptions | None = None,
        strict: bool = False,
        sha256: str | None = None,
    ) -> None:
        path = Path(folder)
        if sha256 is not None:
            check_same_pair(path, sha256)
        options: LoadOptions = {**(loading or {})}
        self._share = CoreShare(shares)
        if options.get("threads") is None:
            options["threads"] = len(self._share.cores)
        name = path.resolve().name if model is None else model
        how = AnsweringOptions(name, texts, instead or {}, drafting or {}, strict)
        self._answering = Answering(load(path, **options), how)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Adds the column `answer` to a batch: JSON texts, as in the results of `edgespec batch`.

        Args:
            batch: with the columns `number`, integers that differ, and `request`, JSON texts as in
                the lines of the input of `edgespec batch`.

        Raises:
            UsageError: a column is missing, or a number is there twice.
        """
        lines = _lines(batch)
        answers = {line_number(answer): answer for answer in self._answering.answers(lines)}
        texts = [json_line(answers[line.number]).decode() for line in lines]
        return {**batch, "answer": texts}


def _lines(batch: Mapping[str, Any]) -> list[RequestLine | RefusedLine]:
    missing = {"number", "request"} - batch.keys()
    if missing:
        raise UsageError(f"a batch has no column {min(missing)!r}; give 'number' and 'request'")
    numbers = [int(number) for number in batch["number"]]
    if len(set(numbers)) < len(numbers):
        raise UsageError(f"numbers of rows are {shortened(numbers)}; give each its own")
    return [
        read_line(number, text if isinstance(text, bytes) else str(text).encode())
        for number, text in zip(numbers, batch["request"], strict=True)
    ]


def check_same_pair(folder: Path, sha256: str) -> None:
    """Raises EdgespecError if the folder is not the pair whose manifest has this digest."""
    read_manifest(folder)
    if pair_digest(folder) != sha256:
        raise EdgespecError(
            f"{folder} is another pair than where the batch was started; copy that one there"
        )
