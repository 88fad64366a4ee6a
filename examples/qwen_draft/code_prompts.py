"""Prompts about functions that are there: to write one like it, to edit it, to explain it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace

from described import described
from functions import Function
from people import Maker
from sections import read_lines, read_sections

SHARES = {"Python": 55, "JavaScript": 9, "C++": 9, "Go": 8, "Java": 8, "Rust": 6, "C": 5}
UNITS = {"Java": "method"}
FENCES = {"C++": "cpp"}
EDIT, EXPLAIN = read_sections("edit"), read_sections("explain")
AROUND = read_lines("around")
SWAPS = (  # small mistakes
    *((" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" == ", " != "), (" != ", " == ")),
    *((" + 1", ""), (" - 1", ""), (" and ", " or "), (" or ", " and "), (" && ", " || ")),
    *((" || ", " && "), ("not ", ""), ("True", "False"), ("false", "true"), ("[0]", "[1]")),
    *(("+= 1", "+= 2"), ("min(", "max("), ("break", "continue")),
)


def with_mistake(source: str, rng: random.Random) -> str:
    """The same code with one small mistake after its first line; the same if none fits."""
    head, end, body = source.partition("\n")
    fitting = [(old, new) for old, new in SWAPS if old in body]
    if not fitting:
        return source
    old, new = rng.choice(fitting)
    at = rng.choice([found.start() for found in re.finditer(re.escape(old), body)])
    return f"{head}{end}{body[:at]}{new}{body[at + len(old) :]}"


@dataclass(frozen=True)
class CodePrompts:
    """functions: by language, those of SHARES."""

    functions: dict[str, list[Function]]
    maker: Maker
    rng: random.Random

    def described(self) -> str:
        one = self._pick()
        while not one.is_described:
            one = self._pick()
        language = one.language if self.rng.random() < 0.7 else self.maker.make("{other}")
        return described(one, language, self.rng)

    def around(self) -> str:
        """To write code that has to do with code that is shown."""
        return self._shown(self._pick(), self.rng.choice(AROUND))

    def edit(self) -> str:
        one = self._pick()
        kind = self.rng.choices(
            ("mistake", "rename", "translate", "any", one.language), (12, 12, 14, 20, 42)
        )[0]
        if kind == "mistake":
            broken = with_mistake(one.source, self.rng)
            kind = kind if broken != one.source else "any"
            one = replace(one, source=broken)
        if kind == "rename" and not one.parameters:
            kind = "any"
        pattern = self.rng.choice([p for line in EDIT[kind] if (p := _fitting(line, one.source))])
        return self._shown(
            one, pattern if kind in ("mistake", "translate") else pattern + "{whole}"
        )

    def explain(self) -> str:
        one = self._pick()
        kind = self.rng.choices(("any", "parameter", one.language), (64, 20, 16))[0]
        if kind == "parameter" and not one.parameters:
            kind = "any"
        return self._shown(one, self.rng.choice(EXPLAIN[kind]))

    def _pick(self) -> Function:
        language = self.rng.choices(list(SHARES), list(SHARES.values()))[0]
        return self.rng.choice(self.functions[language])

    def _shown(self, one: Function, pattern: str) -> str:
        """The pattern and the code: mostly before it, a third of the codes in a fence."""
        given = {
            "language": one.language,
            "name": one.name,
            "parameter": self.rng.choice(one.parameters or ["the argument"]),
            "unit": UNITS.get(one.language, "function"),
        }
        words, code = self.maker.make(pattern, given), one.source
        if self.rng.random() < 0.35:
            code = f"```{FENCES.get(one.language, one.language.lower())}\n{code}\n```"
        return f"{code}\n\n{words}" if self.rng.random() < 0.08 else f"{words}\n\n{code}"


def _fitting(line: str, source: str) -> str:
    """The request of a line of edit.txt; "" if the code has not what it wants to change."""
    wanted, arrow, request = line.partition(" => ")
    if not arrow:
        return line
    return request if re.search(wanted, source) else ""
