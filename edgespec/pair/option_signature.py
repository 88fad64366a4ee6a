"""What `help` and editors show of a method that takes its options as keyword arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ForwardRef, TypeVar

__all__ = ["with_options"]

F = TypeVar("F", bound=Callable[..., Any])


def with_options(options: type, defaults: Mapping[str, Any]) -> Callable[[F], F]:
    """Lets `help` show every option of a method that takes `**options`, with its default.

    Args:
        options: the TypedDict of its options.
        defaults: of each of them, in the order in which they are shown.
    """
    types = options.__annotations__

    def with_signature(method: F) -> F:
        signature = inspect.signature(method)
        own = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        shown = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_text(types[name])
            )
            for name, default in defaults.items()
        ]
        method.__signature__ = signature.replace(parameters=[*own, *shown])  # type: ignore[attr-defined]
        return method

    return with_signature


def _text(annotation: object) -> object:
    """As it is written in the source, not with the module that it comes from."""
    return annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
