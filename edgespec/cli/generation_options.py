"""How the command line generates: what was asked for, and the model's own settings for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.artifact.manifest import Manifest

__all__ = ["check_greedy", "generation_options"]


def check_greedy(options: dict[str, Any]) -> None:
    """Raises UsageError if --greedy comes with a temperature."""
    if options["greedy"] and options["temperature"]:
        raise UsageError("--greedy and --temperature contradict each other; give one")


def generation_options(manifest: Manifest, options: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `Pair.stream`.

    An option that was not given (None) is the model's own setting. --greedy sets aside the model's
    own sampling.
    """
    given = {name: value for name, value in options.items() if name != "greedy"}
    own = manifest.generation.options()
    if options["greedy"]:
        own = {"temperature": 0.0, "max_new_tokens": own["max_new_tokens"]}
        given["temperature"] = None
    return {**own, **{name: value for name, value in given.items() if value is not None}}
