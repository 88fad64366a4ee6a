"""Sound as samples that are read piece by piece, so that its length costs no memory."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from edgespec.errors import UsageError, shortened

__all__ = ["RATE", "ArraySound", "Samples", "Sound", "check_rate", "mixed"]

RATE = 16_000  # samples per second that speech models read
MAX_RATE = 768_000
TOO_LOUD = 100.0  # no sound is: such samples are whole numbers as floats

Samples: TypeAlias = npt.NDArray[np.float32]


class Sound(Protocol):
    """Mono sound.

    Attributes:
        rate: samples per second.
        length: samples.
    """

    @property
    def rate(self) -> int: ...
    @property
    def length(self) -> int: ...

    def read(self, start: int, count: int) -> Samples:
        """Samples start … start + count - 1, each about -1 to 1; 0 before and after the sound.

        Raises:
            EdgespecError: they cannot be read, or are no numbers.
        """
        ...


class ArraySound:
    """Sound in memory.

    Args:
        samples: mono [length], or [length, channels], which are mixed. Floats from -1 to 1, or
            integers of a width that is the full range.

    Raises:
        UsageError: it is no such array, or a sample is NaN, infinite, or so large that it is a
            whole number as a float.
    """

    def __init__(self, samples: npt.ArrayLike, rate: int = RATE) -> None:
        check_rate(rate)
        array = np.asarray(samples)
        if array.ndim not in (1, 2) or array.dtype.kind not in "fiu" or array.dtype == np.uint8:
            raise UsageError(
                f"the sound is an array {list(array.shape)} of {array.dtype}; give floats or "
                "integers, mono [samples] or [samples, channels]"
            )
        if array.dtype.kind in "iu":
            array = array / float(np.iinfo(array.dtype).max + 1)
        if not np.isfinite(array).all():
            raise UsageError("the sound has samples that are no finite numbers; give others")
        loud = np.abs(array) >= TOO_LOUD
        if loud.any():
            raise UsageError(
                f"the sound has the sample {float(array[loud][0])}; give -1 to 1: 16-bit samples "
                "divided by 32,768"
            )
        self.rate = int(rate)
        self._samples = mixed(array.astype(np.float32))
        self.length = len(self._samples)

    def read(self, start: int, count: int) -> Samples:
        """See `Sound.read`."""
        found = np.zeros(count, np.float32)
        first, last = max(start, 0), min(start + count, self.length)
        if first < last:
            found[first - start : last - start] = self._samples[first:last]
        return found


def mixed(samples: Samples) -> Samples:
    """[length] or [length, channels] as the mean of the channels, [length]."""
    return samples if samples.ndim == 1 else samples.mean(axis=1, dtype=np.float32)


def check_rate(rate: object) -> None:
    """Raises UsageError for a number of samples per second that no sound has."""
    if not isinstance(rate, int) or not 100 <= rate <= MAX_RATE:
        raise UsageError(
            f"the sound's rate is {shortened(rate)}; give 100 to {MAX_RATE} per second"
        )
