"""Sounds transcribed by Python and by libedgespec, to be compared."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Mapping
from ctypes import byref, c_double, c_size_t, string_at
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.speech import transcript
from native_library import NativeModel, NativeSession, Segment, TranscriptOptions

__all__ = ["NativeTranscript", "options_of"]

DRAFTS = {False: 0, "model": 1, "lookup": 2, "both": 3, True: 3}
Samples = npt.NDArray[np.float32]


def options_of(library: ctypes.CDLL, given: Mapping[str, Any]) -> TranscriptOptions:
    """The options with these names, as `Pair.transcribe` takes them."""
    options = TranscriptOptions()
    library.edgespec_transcript_options_defaults(byref(options))
    for name, value in given.items():
        if name == "temperature":
            several = [value] if isinstance(value, int | float) else value
            options.temperatures = (c_double * len(several))(*several)
            options.temperatures_count = len(several)
        elif name == "task":
            options.translate = value == "translate"
        elif name in ("language", "prompt"):
            setattr(options, name, None if value is None else value.encode())
        else:
            number = math.nan if value is None else value
            setattr(options, name, DRAFTS[value] if name == "draft" else number)
    return options


class NativeTranscript:
    """A transcript that grows as it is iterated over, as Python's.

    Attributes:
        segments, language, language_probability, seconds: as of `Transcript`.
        calls, drafted, accepted: as of its stats.
    """

    def __init__(self, session: NativeSession, samples: Samples, **given: Any) -> None:
        self._session = session
        self._library, self._check = session.model.library, session.model.check
        self.segments: list[transcript.Segment] = []
        options = options_of(self._library, given)
        data = np.ascontiguousarray(samples, np.float32)
        begin = self._library.edgespec_begin_transcript
        pointer = data.ctypes.data_as(ctypes.c_void_p)
        self._check(begin(session.handle, pointer, c_size_t(len(data)), byref(options)))

    def __iter__(self) -> Iterator[transcript.Segment]:
        found = Segment(size=ctypes.sizeof(Segment))
        while True:
            self._check(self._library.edgespec_next_segment(self._session.handle, byref(found)))
            self.language = found.language.decode() or None
            self.language_probability = found.language_probability or None
            self.seconds = found.seconds
            self.calls, self.drafted, self.accepted = found.calls, found.drafted, found.accepted
            if found.ended:
                return
            self.segments.append(
                transcript.Segment(
                    found.start,
                    found.end,
                    string_at(found.text, found.text_bytes).decode(),
                    tuple(found.tokens[: found.count]),
                    found.temperature,
                    found.logprob,
                    found.compression,
                    found.no_speech,
                )
            )
            yield self.segments[-1]

    def finish(self) -> NativeTranscript:
        """Takes all segments that are still to come."""
        for _ in self:
            pass
        return self


def transcribed(model: NativeModel, samples: Samples, **given: Any) -> NativeTranscript:
    """A transcript in a session of its own, to the end."""
    return NativeTranscript(model.session(), samples, **given).finish()
