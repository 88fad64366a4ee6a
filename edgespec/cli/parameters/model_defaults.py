"""How the command line generates: what was asked for, and the model's own settings for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from edgespec.cli.settings_file import is_from_file
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.artifact.manifest import Manifest
    from edgespec.pair.generation_options import GenerationOptions

__all__ = ["check_greedy", "generation_options"]


def check_greedy(options: Mapping[str, object]) -> None:
    """Raises UsageError if --greedy comes with a temperature on the command line."""
    if options["greedy"] and options["temperature"] and not is_from_file("temperature"):
        raise UsageError("--greedy and --temperature contradict each other; give one")


def generation_options(manifest: Manifest, options: Mapping[str, object]) -> GenerationOptions:
    """Arguments of `Pair.stream`.

    Args:
        options: of the command, after their checks. One that was not given (None) is the model's
            own setting; "greedy" replaces the model's own sampling.
    """
    model = manifest.generation
    own: Mapping[str, object] = model.options()
    if options["greedy"]:
        own = {"temperature": 0.0, **model.edits(), "max_new_tokens": model.length()}
    given = {name: value for name, value in options.items() if value is not None and value != ()}
    if given.pop("greedy") and is_from_file("temperature"):
        given.pop("temperature", None)
    return cast("GenerationOptions", {**own, **given})
