"""On-device text generation that is exactly the model's own, only faster.

import edgespec

pair = edgespec.load("build/en-de")
print(pair.generate("GNU C compiler").text)
"""

from edgespec.core.stats import Stats as Stats
from edgespec.errors import EdgespecError as EdgespecError
from edgespec.errors import UsageError as UsageError
from edgespec.pair.generation import Chunk as Chunk
from edgespec.pair.generation import Generation as Generation
from edgespec.pair.generation import Settings as Settings
from edgespec.pair.generation import Stream as Stream
from edgespec.pair.loading import load as load
from edgespec.pair.pair import Pair as Pair

__all__ = [
    "Chunk",
    "EdgespecError",
    "Generation",
    "Pair",
    "Settings",
    "Stats",
    "Stream",
    "UsageError",
    "load",
]
__version__ = "0.1.0"
