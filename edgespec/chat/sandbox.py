"""Jinja for chat templates of strangers: set up as transformers does, with limits of work and size.

A template is a program that comes with a checkpoint. It runs in Jinja's sandbox, which keeps it
from files and from Python, and every loop, call and filter counts as a step here. Texts and lists
are measured before they are made, so that no single step can take long or fill the memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from time import thread_time
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import loopcontrols
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from edgespec.chat.jinja_parts import CheckedCode, Generation, PublicNamespace
from edgespec.chat.tracked_text import joined

__all__ = ["BoundedEnvironment", "TemplateLimitError", "TemplateRaisedError"]

# Turns of loops, calls, filters and operators of one rendering.
MAX_STEPS, STEPS_OF_A_MESSAGE = 100_000, 200
MAX_SECONDS = 5.0  # of processor time
MAX_CHARACTERS = 10_000_000  # of one text, or of all texts in a value
MAX_ENTRIES = 300_000  # of a list, or of all lists in a value
MAX_BITS = 4096  # of a whole number
MAX_WIDTH = 10_000  # of padding
# Filters that take longer than their input is long, or whose result is not the same each time.
LEFT_OUT = ("pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr")
OF_TEXTS = (
    *("capitalize", "center", "escape", "e", "forceescape", "indent", "lower", "replace"),
    *("string", "title", "trim", "truncate", "upper", "urlencode", "wordcount"),
)
PADDING = ("center", "ljust", "rjust", "zfill", "indent", "batch", "slice", "tojson")
# What a pattern says about the width of a field: "-20" of "%-20s", ":>20" of "{:>20}".
PERCENT = re.compile(r"%(?:\([^)]*\))?([-+ #0-9.*]*)")
BRACES = re.compile(r"\{([^{}]*)")
LONG_WIDTH = re.compile(r"\d{5}")
PLAIN = (str, int, float, type(None), Undefined)
VIEWS = (KeysView, ValuesView, ItemsView)


class TemplateLimitError(Exception):
    """A template does more than any chat template needs."""


class TemplateRaisedError(jinja2.TemplateError):
    """What a template itself says against the messages, with `raise_exception`."""


class _Work:
    """The steps of one rendering.

    Attributes:
        wrote_none: the template wrote a None, which is no text of a prompt.
    """

    def __init__(self, steps: int) -> None:
        self.wrote_none = False
        self._left = self._most = steps
        self._ends = thread_time() + MAX_SECONDS

    def step(self) -> str:
        self._left -= 1
        if self._left < 0:
            raise TemplateLimitError(f"it takes more than {self._most} steps")
        if thread_time() > self._ends:
            raise TemplateLimitError(f"it takes more than {MAX_SECONDS:.0f} seconds")
        return ""


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja as transformers sets it up for chat templates, with limits.

    Texts in the messages may be `TrackedText`; the output then is.
    """

    code_generator_class = CheckedCode
    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[Generation, loopcontrols],
            finalize=self._shown,
        )
        self._work: ContextVar[_Work] = ContextVar("work")
        self.concat = self._concat  # type: ignore[method-assign]
        self.filters = {
            name: self._bounded(name, function)
            for name, function in FILTERS.items()
            if name not in LEFT_OUT
        }
        self.filters["tojson"] = self._bounded("tojson", self._to_json)
        self.filters["join"] = self._join
        self.globals["raise_exception"] = _raise_exception
        self.globals["namespace"] = PublicNamespace
        self.globals["dict"] = self._dict
        del self.globals["lipsum"]

    @contextmanager
    def working(self, messages: int = 0) -> Iterator[_Work]:
        """The steps of what is compiled and rendered in this block are counted together.

        Args:
            messages: how many the template is given.
        """
        work = _Work(MAX_STEPS + STEPS_OF_A_MESSAGE * messages)
        token = self._work.set(work)
        try:
            yield work
        finally:
            self._work.reset(token)

    # --- what generated code calls ---

    def step(self) -> str:
        return self._work.get().step()

    def together(self, values: Iterable[object]) -> str:
        """`a ~ b`."""
        return self._concat(self._text(value) for value in values)

    def made(self, value: object) -> object:
        """A list, tuple or dictionary that the template makes."""
        self.step()
        self._check_size(value)
        return value

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Each turn of a loop is a step."""
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            call = nodes.Call(nodes.EnvironmentAttribute("step"), [], [], None, None)
            loop.body.insert(0, nodes.ExprStmt(call, lineno=loop.lineno))
        return tree

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        __self.step()
        owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if isinstance(owner, int | float | bytes):
            raise TemplateLimitError(f"it uses {name}, which chat templates do not need")
        if isinstance(owner, str):
            if name == "join":
                return __self._concat((_part(text) for text in args[0]), owner)
            __self._check_method(owner, name, (*args, *kwargs.values()))
        return __self._checked(super().call(__context, __obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        format_text = super().wrap_str_format(value)
        if format_text is None:
            return None

        def formatted(*args: Any, **kwargs: Any) -> str:
            self._check_format(value.__self__, BRACES, (*args, *kwargs.values()))
            return format_text(*args, **kwargs)

        return formatted

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        self.step()
        if operator == "%" and isinstance(left, str):
            self._check_format(left, PERCENT, [right])
        elif operator == "+":
            if isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
                self._check_length(left, len(left) + len(right))
        elif isinstance(left, int) and isinstance(right, int):
            _check_bits(operator, left, right)
        elif operator == "*":
            for value, times in ((left, right), (right, left)):
                if isinstance(value, str | list | tuple) and isinstance(times, int):
                    self._check_length(value, len(value) * times)
        return self._checked(super().call_binop(context, operator, left, right))

    # --- texts ---

    def _shown(self, value: Any) -> Any:
        """What `{{ … }}` writes."""
        if value is None:
            self._work.get().wrote_none = True
        elif not isinstance(value, PLAIN):
            self._check_size(value, shown=True)
        return value

    def _text(self, value: object) -> str:
        return str(self._shown(value))

    def _concat(self, texts: Iterable[str], separator: str = "") -> str:
        return joined(self._up_to_limit(texts, len(separator)), separator)

    def _up_to_limit(self, texts: Iterable[str], more: int) -> Iterator[str]:
        length = 0
        for text in texts:
            length += len(text) + more
            if length > MAX_CHARACTERS:
                raise TemplateLimitError(f"it writes more than {MAX_CHARACTERS} characters")
            yield text

    @jinja2.pass_eval_context
    def _join(
        self, _: object, value: Iterable[Any], d: str = "", attribute: str | int | None = None
    ) -> str:
        """Jinja's filter `join`."""
        self.step()
        if attribute is not None:
            value = map(make_attrgetter(self, attribute), value)
        return self._concat(map(self._text, value), str(d))

    def _to_json(
        self,
        value: object,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """Jinja's own filter escapes HTML."""
        if value is None:
            self._work.get().wrote_none = True
        self._check_size(value)
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    # --- limits ---

    def _dict(self, *args: Any, **kwargs: Any) -> object:
        return self.made(dict(*args, **kwargs))

    def _bounded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A filter whose steps and sizes are looked at."""
        of = 1 if hasattr(function, "jinja_pass_arg") else 0  # index of the filtered value

        @wraps(function)
        def filtered(*args: Any, **kwargs: Any) -> Any:
            self.step()
            value, *more = args[of:]
            values = (*more, *kwargs.values())
            if name in OF_TEXTS:
                self._shown(value)
            if name == "sum" and not all(isinstance(v, str | int | float | None) for v in values):
                raise TemplateLimitError("it sums what is no number")
            if name == "format":
                self._check_format(str(value), PERCENT, values)
            elif isinstance(value, str):
                self._check_method(value, name, values)
            elif name in PADDING:
                _check_padding(values)
            return self._checked(function(*args, **kwargs))

        return filtered

    def _check_method(self, owner: str, name: str, values: tuple[Any, ...]) -> None:
        """Looks at what a method of a text, or a filter, would make."""
        if name in PADDING:
            _check_padding(values)
            widths = [len(value) for value in values if isinstance(value, str)]
            width = max(widths, default=_largest(values))
            self._check_length(owner, len(owner) + width * (1 + owner.count("\n")))
        elif name == "expandtabs":
            self._check_length(owner, len(owner) + owner.count("\t") * max(8, _largest(values)))
        elif name == "replace" and len(values) > 1:
            old, new = str(values[0]), str(values[1])
            self._check_length(owner, len(owner) + owner.count(old) * len(new))
        elif name in ("translate", "encode"):
            raise TemplateLimitError(f"it uses {name}, which chat templates do not need")

    def _check_format(
        self, pattern: str, fields: re.Pattern[str], values: Iterable[object]
    ) -> None:
        """Looks at what a pattern makes of values, which may be its widths, too."""
        values = list(values)
        _check_padding(values)
        found = fields.findall(pattern)
        for field in found:
            if LONG_WIDTH.search(field) or "*" in field.partition(":")[0]:
                raise TemplateLimitError(f"it formats with the width in {field[:60]!r}")
        sizes = [self._check_size(value) for value in values]
        if any(isinstance(value, str) and LONG_WIDTH.fullmatch(value[:5]) for value in values):
            sizes.append(MAX_WIDTH)
        self._check_length(pattern, len(pattern) + len(found) * max(sizes, default=0))

    def _check_size(self, value: object, shown: bool = False) -> int:
        """Looks at all that is in a value; returns its size.

        Args:
            shown: it becomes a text, so other objects than JSON's are refused: the text of a
                function is its address.
        """
        size = entries = 0
        left: list[object] = [value]
        while left:
            value = left.pop()
            entries += 1
            size += len(value) if isinstance(value, str) else 0
            if size > MAX_CHARACTERS or entries > MAX_ENTRIES:
                raise TemplateLimitError(f"it makes a list of more than {MAX_ENTRIES} entries")
            if isinstance(value, Mapping):
                left += value.keys()
                left += value.values()
            elif isinstance(value, (list, tuple, *VIEWS)):
                left += value
            elif shown and not isinstance(value, (*PLAIN, range)):
                raise TemplateLimitError(f"it writes a {type(value).__name__}")
        return size + entries

    def _checked(self, value: Any) -> Any:
        if isinstance(value, str | list | tuple):
            self._check_length(value, len(value))
        return value

    def _check_length(self, value: object, length: int) -> None:
        if isinstance(value, str) and length > MAX_CHARACTERS:
            raise TemplateLimitError(f"it makes a text of more than {MAX_CHARACTERS} characters")
        if not isinstance(value, str) and length > MAX_ENTRIES:
            raise TemplateLimitError(f"it makes a list of more than {MAX_ENTRIES} entries")


def _part(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"a text is joined with a {type(text).__name__}")
    return text


def _largest(values: Iterable[object]) -> int:
    """The largest whole number among them, at least 0."""
    return max((value for value in values if isinstance(value, int)), default=0)


def _check_padding(values: Iterable[object]) -> None:
    if _largest(values) > MAX_WIDTH:
        raise TemplateLimitError(f"it pads to more than {MAX_WIDTH} characters")


def _check_bits(operator: str, left: int, right: int) -> None:
    bits = left.bit_length() * max(right, 0) if operator == "**" else 0
    if operator == "*":
        bits = left.bit_length() + right.bit_length()
    if bits > MAX_BITS:
        raise TemplateLimitError(f"it makes a number of more than {MAX_BITS} bits")


def _raise_exception(message: object) -> NoReturn:
    raise TemplateRaisedError(str(message))
