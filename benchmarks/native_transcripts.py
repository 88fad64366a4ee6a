"""libedgespec beside Python on whole sounds: tokens a second, in turns.

    python benchmarks/native_transcripts.py build/whisper --sound FILE … --drafts none lookup both

Needs `make native` and a quiet machine. Both transcribe the same samples greedily, without
fallbacks; their tokens are compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import edgespec
from edgespec.audio.resampling import resampled
from edgespec.audio.sound_file import open_sound
from in_turns import Texts, compared
from record import begin, write_result

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
native_library = import_module("native_library")  # the same binding that the tests use
native_transcripts = import_module("native_transcripts")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", type=Path)
    parser.add_argument("--sound", type=Path, nargs="+", required=True)
    parser.add_argument("--drafts", nargs="+", default=["none"])
    parser.add_argument("--target-format")
    parser.add_argument("--rounds", type=int, default=10)
    options, record = begin(parser)
    found = {}
    for draft in options.drafts:
        found[draft] = _speeds(options, draft)
        print(draft, json.dumps(found[draft]))
    write_result(options, record, **found)


def _speeds(options: argparse.Namespace, draft: str) -> dict[str, Any]:
    """Tokens a second of both with a drafter, and their ratio."""
    given: dict[str, Any] = {"draft": False if draft == "none" else draft, "temperature": 0.0}
    loading: dict[str, Any] = {"threads": options.threads}
    if options.target_format:
        loading["target_format"] = options.target_format
    pair = edgespec.load(options.pair, **loading)
    session = native_library.NativeModel(options.pair, **loading).session()
    sounds = [_samples(file) for file in options.sound]

    def python() -> Texts:
        return [pair.transcribe(sound, **given).token_ids for sound in sounds]

    def native() -> Texts:
        made = [
            native_transcripts.NativeTranscript(session, sound, **given).finish()
            for sound in sounds
        ]
        return [[token for one in each.segments for token in one.token_ids] for each in made]

    return compared(python, native, options.rounds)


def _samples(file: Path) -> Any:
    sound = resampled(open_sound(file))
    return sound.read(0, sound.length)


if __name__ == "__main__":
    main()
