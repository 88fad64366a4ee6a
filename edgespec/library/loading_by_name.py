"""`edgespec.load` and `edgespec.export`: pairs by name, as commands take them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar, Unpack

from edgespec.artifact.manifest import MANIFEST
from edgespec.errors import UsageError, check_names, needs_extra, shortened
from edgespec.library.exporting import BUILT_IN, ExportRequest, export_request, run_export
from edgespec.library.pair_cache import cached_folder, pair_folder
from edgespec.pair.opening import loading
from edgespec.pair.opening.loading import LoadOptions
from edgespec.pair.pair import Pair

__all__ = ["export", "load"]

Given = ParamSpec("Given")
Result = TypeVar("Result")


def load(pair: str | Path, **options: Unpack[LoadOptions]) -> Pair:
    check_names("load", options, LoadOptions.__annotations__)
    return loading.load(_folder(pair, options.get("target_format")), **options)


def _folder(pair: str | Path, target_format: str | None) -> Path:
    """The exported folder that a caller means; a path that is no checkpoint means itself."""
    if not isinstance(pair, (str, os.PathLike)) or not pair:
        raise UsageError(f"the pair is {shortened(pair)}; give a folder or a model's name")
    path = Path(pair)
    if isinstance(pair, Path) and not (path.is_file() or (path / "config.json").is_file()):
        return path
    if (path / MANIFEST).is_file():
        return path
    with needs_extra("export"):
        return pair_folder(str(pair), target_format)


# `help` shows each option of `loading.load`, and what it means.
_OPENING = inspect.signature(loading.load)
load.__signature__ = _OPENING.replace(  # type: ignore[attr-defined]
    parameters=[
        inspect.Parameter("pair", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="str | Path"),
        *list(_OPENING.parameters.values())[1:],
    ]
)
load.__doc__ = f"""Opens a pair by its folder or name.

    Args:
        pair: an exported folder; the name of one in the cache; or what `edgespec.export` takes as
            `target` (a short name, a hub id, a GGUF file, a checkpoint's folder). Such a model is
            exported into the cache when it is first used, which needs edgespec-export; a bar on
            the terminal shows the time left. A `Path` is never looked for on a hub.
    {(loading.load.__doc__ or "").partition("Args:")[2]}"""


def _with_names_checked(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """The same, and an option that does not exist is a TypeError with the nearest that does."""
    names = inspect.signature(function).parameters

    @wraps(function)
    def checked(*arguments: Given.args, **options: Given.kwargs) -> Result:
        check_names(function.__name__, options, names)
        return function(*arguments, **options)

    return checked


@_with_names_checked
def export(
    target: str | Path,
    draft: str | Path | None = None,
    output: str | Path | None = None,
    *,
    no_draft: bool = False,
    adapter: str | None = None,
    target_formats: Sequence[str] | None = None,
    draft_formats: Sequence[str] | None = None,
    cache_formats: Sequence[str] | None = None,
    calibration: str = BUILT_IN,
    host: str | None = None,
    gammas: Sequence[int] = (),
    capacity: int | None = None,
    draft_tokens: int | None = None,
    long_texts: bool = False,
    verify: bool = False,
    measure: bool = True,
    replace: bool = False,
    threads: int | None = None,
) -> Path:
    """Converts models to a folder for `load` and returns it; needs edgespec-export.

    Args:
        target, draft: a checkpoint's folder, a GGUF file, a hub id or a short name such as
            "smollm2-135m". Without a draft a catalogue proposes one for well-known targets.
        output: None: in the cache, where what is there already is taken unless `replace` is true.
        no_draft: take none from the catalogue; the pair drafts by prompt lookup. adapter: a LoRA
            adapter of the target: a folder or a hub id.
        target_formats, draft_formats: number formats such as "int8"; the first is the pair's
            default. None: int8 where it is near fp32; a draft is int8.
        cache_formats: of the target's keys and values: "fp32", "fp16", "int8" or "int8-bf16".
        calibration: texts for int4: "built-in", "none", or a file. host: "web", "gpu" or "npu".
        gammas, capacity: for an NPU: drafted tokens, of each a graph; positions of the cache.
        draft_tokens: that the draft proposes, its most frequent ones; None: all. long_texts: of a
            model with longrope: the factors for long texts in every text.
        verify: compare each float32 graph with the original model. measure: row invariance and
            distances from float32, with so many `threads`.
        replace: a pair that is in `output`.

    Raises:
        EdgespecError: a wrong option, or a model that cannot be exported; `output` is as it was.
    """
    with needs_extra("export"):
        request = export_request(
            str(target),
            None if draft is None else str(draft),
            no_draft=no_draft,
            target_formats=_tuple(target_formats),
            draft_formats=_tuple(draft_formats),
            cache_formats=_tuple(cache_formats),
            calibration=calibration,
            host=host,
            adapter=adapter,
            gammas=tuple(gammas),
            capacity=capacity,
            draft_tokens=draft_tokens,
            long_texts=long_texts,
        )
    return _exported(request, output, verify, measure, replace, threads)


def _exported(
    request: ExportRequest,
    output: str | Path | None,
    verify: bool,
    measure: bool,
    replace: bool,
    threads: int | None,
) -> Path:
    """The folder of a request, which the cache may have already."""
    with needs_extra("export"):
        folder = cached_folder(request) if output is None else Path(output)
    if output is None and not replace and (folder / MANIFEST).is_file():
        return folder
    run_export(request, folder, verify=verify, measure=measure, replace=replace, threads=threads)
    return folder


def _tuple(formats: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if formats is None else tuple(formats)
