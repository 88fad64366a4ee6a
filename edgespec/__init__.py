"""Text generation on a device that is exactly the target model's own, only faster.

import edgespec

pair = edgespec.load("build/en-de")
print(pair.generate("GNU C compiler").text)
"""

from edgespec.core.distribution import Distribution as Distribution
from edgespec.core.draft import Drafter as Drafter
from edgespec.core.draft import Proposal as Proposal
from edgespec.core.model import Model as Model
from edgespec.core.randomness import Randomness as Randomness
from edgespec.core.stats import Stats as Stats
from edgespec.errors import EdgespecError as EdgespecError
from edgespec.errors import UsageError as UsageError
from edgespec.pair.generation import Chunk as Chunk
from edgespec.pair.generation import Generation as Generation
from edgespec.pair.generation import GenerationOptions as GenerationOptions
from edgespec.pair.generation import Settings as Settings
from edgespec.pair.generation import Stream as Stream
from edgespec.pair.loading import load as load
from edgespec.pair.pair import Pair as Pair

__all__ = [
    "Chunk",
    "Distribution",
    "Drafter",
    "EdgespecError",
    "Generation",
    "GenerationOptions",
    "Model",
    "Pair",
    "Proposal",
    "Randomness",
    "Settings",
    "Stats",
    "Stream",
    "UsageError",
    "load",
]
__version__ = "0.1.0"
