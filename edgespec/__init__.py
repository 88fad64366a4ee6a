"""On-device text generation that is exactly the model's own, only faster.

import edgespec

pair = edgespec.load("build/en-de")
print(pair.generate("GNU C compiler").text)
"""

from edgespec.errors import EdgespecError as EdgespecError
from edgespec.errors import UsageError as UsageError
from edgespec.generation import Chunk as Chunk
from edgespec.generation import Generation as Generation
from edgespec.generation import Settings as Settings
from edgespec.generation import Stream as Stream
from edgespec.loading import load as load
from edgespec.pair import Pair as Pair
from edgespec.stats import Stats as Stats

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
