"""Text generation on a device that is exactly the target model's own, only faster.

import edgespec

pair = edgespec.load("build/en-de")
print(pair.generate("GNU C compiler").text)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from edgespec.version import VERSION

if TYPE_CHECKING:
    from edgespec.core.distribution import Distribution as Distribution
    from edgespec.core.draft import Drafter as Drafter
    from edgespec.core.draft import Proposal as Proposal
    from edgespec.core.model import Model as Model
    from edgespec.core.randomness import Randomness as Randomness
    from edgespec.core.stats import Stats as Stats
    from edgespec.errors import EdgespecError as EdgespecError
    from edgespec.errors import UsageError as UsageError
    from edgespec.grammar.grammar import Grammar as Grammar
    from edgespec.grammar.grammar import json_schema as json_schema
    from edgespec.grammar.grammar import lark as lark
    from edgespec.grammar.grammar import regex as regex
    from edgespec.library.loading_by_name import export as export
    from edgespec.library.loading_by_name import load as load
    from edgespec.pair.generation import Chunk as Chunk
    from edgespec.pair.generation import Generation as Generation
    from edgespec.pair.generation import Settings as Settings
    from edgespec.pair.generation import Stream as Stream
    from edgespec.pair.generation_options import GenerationOptions as GenerationOptions
    from edgespec.pair.pair import Pair as Pair

__all__ = [
    "Chunk",
    "Distribution",
    "Drafter",
    "EdgespecError",
    "Generation",
    "GenerationOptions",
    "Grammar",
    "Model",
    "Pair",
    "Proposal",
    "Randomness",
    "Settings",
    "Stats",
    "Stream",
    "UsageError",
    "export",
    "json_schema",
    "lark",
    "load",
    "regex",
]
__version__ = VERSION

# Imported when first used, so that the command can answer Ctrl-C before numpy is loaded.
_MODULES = {
    "Chunk": "edgespec.pair.generation",
    "Distribution": "edgespec.core.distribution",
    "Drafter": "edgespec.core.draft",
    "EdgespecError": "edgespec.errors",
    "Generation": "edgespec.pair.generation",
    "GenerationOptions": "edgespec.pair.generation_options",
    "Grammar": "edgespec.grammar.grammar",
    "Model": "edgespec.core.model",
    "Pair": "edgespec.pair.pair",
    "Proposal": "edgespec.core.draft",
    "Randomness": "edgespec.core.randomness",
    "Settings": "edgespec.pair.generation",
    "Stats": "edgespec.core.stats",
    "Stream": "edgespec.pair.generation",
    "UsageError": "edgespec.errors",
    "export": "edgespec.library.loading_by_name",
    "json_schema": "edgespec.grammar.grammar",
    "lark": "edgespec.grammar.grammar",
    "load": "edgespec.library.loading_by_name",
    "regex": "edgespec.grammar.grammar",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'edgespec' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
