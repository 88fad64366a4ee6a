"""Whether a JSON schema has a value that ends: {"required": ["next"], …} may ask for itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from edgespec.errors import UsageError
from edgespec.grammar.schema_references import referenced

__all__ = ["check_ends"]


def check_ends(schema: Mapping[str, object]) -> None:
    """Raises UsageError if every value of a checked schema would contain itself.

    Takes time linear in the schema: each part is told once of each member that ends.
    """
    parts = _Parts(schema)
    root = parts.of(schema)
    parts.read()
    parts.tell()
    if root.missing > 0:
        raise UsageError(
            "the JSON schema asks for a value that contains itself, so no text would end; make a "
            "property optional, or allow null"
        )


@dataclass(eq=False)
class _Part:
    """A schema, or several: it has a value that ends once so many of its members have one.

    Attributes:
        missing: how many more of them must.
        member_of: the parts that wait for this one.
    """

    missing: int = 0
    member_of: list[_Part] = field(default_factory=list)


class _Parts:
    """The parts of a schema, each once."""

    def __init__(self, schema: Mapping[str, object]) -> None:
        self._root = schema
        self._any = _Part()  # a schema that some value fits which has no parts
        self._known: dict[int, _Part] = {}  # by the identity of their schemas
        self._unread: list[tuple[_Part, Mapping[str, object]]] = []
        self._ending = [self._any]

    def of(self, schema: object) -> _Part:
        """The part that a schema is; its members are found by `read`."""
        if not isinstance(schema, Mapping) or "enum" in schema or "const" in schema:
            return self._any
        if id(schema) not in self._known:
            self._known[id(schema)] = _Part()
            self._unread.append((self._known[id(schema)], schema))
        return self._known[id(schema)]

    def read(self) -> None:
        """Finds the members of all parts."""
        while self._unread:
            part, schema = self._unread.pop()
            members = [*self._all_of(schema), *self._choices(schema), self._of_types(schema)]
            self._join(part, members, len(members))

    def tell(self) -> None:
        """Finds the parts that end: from those without members to those that wait for them."""
        while self._ending:
            for whole in self._ending.pop().member_of:
                whole.missing -= 1
                if whole.missing == 0:
                    self._ending.append(whole)

    def _join(self, part: _Part, members: Iterable[_Part], needed: int) -> _Part:
        for member in members:
            member.member_of.append(part)
        part.missing = needed
        if not needed:
            self._ending.append(part)
        return part

    def _all(self, schemas: Iterable[object]) -> _Part:
        members = [self.of(schema) for schema in schemas]
        return self._join(_Part(), members, len(members))

    def _all_of(self, schema: Mapping[str, object]) -> Iterator[_Part]:
        """What each of its values fits: the schema that it refers to, and those of `allOf`."""
        if isinstance(reference := schema.get("$ref"), str):
            yield self.of(referenced(self._root, reference))
        yield from map(self.of, _listed(schema.get("allOf")))

    def _choices(self, schema: Mapping[str, object]) -> Iterator[_Part]:
        for name in ("anyOf", "oneOf"):
            if choices := [self.of(choice) for choice in _listed(schema.get(name))]:
                yield self._join(_Part(), choices, 1)

    def _of_types(self, schema: Mapping[str, object]) -> _Part:
        """The values of its types, of which one must end."""
        types = schema.get("type", "any")
        kinds = types if isinstance(types, list) else [types]
        if not kinds or any(kind not in ("object", "array") for kind in kinds):
            return self._any  # without a type there is no value, as the matcher says
        parts = []
        if "object" in kinds:
            parts.append(self._all(_required(schema)))
        if "array" in kinds:
            parts.append(self._all(_first_items(schema)))
        return self._join(_Part(), parts, 1)


def _required(schema: Mapping[str, object]) -> Iterator[object]:
    """The schemas of the properties that an object must have."""
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    others = schema.get("additionalProperties", True)
    for name in _listed(schema.get("required")):
        yield known.get(name, others) if isinstance(name, str) else True


def _first_items(schema: Mapping[str, object]) -> Iterator[object]:
    """The schemas of the items that a list must have, each once."""
    least = schema.get("minItems", 0)
    if isinstance(least, int) and least >= 1:
        first = _listed(schema.get("prefixItems"))[:least]
        yield from first
        if len(first) < least:
            yield schema.get("items", True)


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
