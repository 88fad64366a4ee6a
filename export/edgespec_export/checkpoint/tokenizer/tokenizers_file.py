"""The tokenizer of a checkpoint folder."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import BPE

from edgespec.errors import EdgespecError, one_line, shortened
from edgespec.pair.foreign.quiet_panics import quiet_panics
from edgespec.pair.foreign.tokenizer_check import check_settings
from edgespec.pair.foreign.tokenizer_trial import try_texts
from edgespec.pair.tokenizer import is_tokenizer_error
from edgespec_export.checkpoint.json_file import JsonObject, read_json_object
from edgespec_export.checkpoint.tokenizer.auto_tokenizer import auto_tokenizer, built_tokenizer
from edgespec_export.checkpoint.tokenizer.byt5_tokenizer import byt5_tokenizer
from edgespec_export.checkpoint.tokenizer.class_parts import CLASSES, Vocabulary
from edgespec_export.checkpoint.tokenizer.marian_tokenizer import SOURCE_PIECES, marian_tokenizer
from edgespec_export.checkpoint.tokenizer.shifted_pieces import (
    mbart_vocabulary,
    pegasus_vocabulary,
)
from edgespec_export.checkpoint.tokenizer.t5_tokenizer import t5_tokenizer
from edgespec_export.checkpoint.tokenizer.tokenizer_class import tokenizer_class
from edgespec_export.checkpoint.tokenizer.tokenizer_settings import TokenizerSettings

__all__ = ["load_tokenizer", "read_tokenizer_json"]

BPE_FILES = "vocab.json", "merges.txt"
MBART_PIECES = "sentencepiece.bpe.model"


def load_tokenizer(folder: Path, config: JsonObject) -> Tokenizer:
    """The tokenizer of a checkpoint, with truncation and padding off.

    `tokenizer.json` if there is one, with what the files beside it say; else `spiece.model` of T5
    or Pegasus, else Marian's `source.spm`, else ByT5's, which needs no file, else GPT-2's
    `vocab.json` and `merges.txt`, else mBART's `sentencepiece.bpe.model`.

    Args:
        folder: the checkpoint.
        config: its `config.json`.

    Raises:
        EdgespecError: there is no known tokenizer, or its file is corrupt.
    """
    if (folder / "tokenizer.json").is_file():
        return auto_tokenizer(folder, config, read_tokenizer_json(folder / "tokenizer.json"))
    settings_file = folder / "tokenizer_config.json"
    settings = read_json_object(settings_file) if settings_file.is_file() else {}
    if (folder / "spiece.model").is_file():
        if _class_name(folder, config) == "PegasusTokenizer":
            return built_tokenizer(folder, config, pegasus_vocabulary(folder / "spiece.model"))
        return t5_tokenizer(folder / "spiece.model", _extra_ids(settings_file, settings, 100))
    if (folder / SOURCE_PIECES).is_file():
        return marian_tokenizer(folder)
    if "ByT5Tokenizer" in (settings.get("tokenizer_class"), config.get("tokenizer_class")):
        return byt5_tokenizer(_extra_ids(settings_file, settings, 125))
    if all((folder / name).is_file() for name in BPE_FILES):
        return built_tokenizer(folder, config, _bpe_vocabulary(folder))
    if (folder / MBART_PIECES).is_file():
        known = CLASSES.get(_class_name(folder, config))
        languages = () if known is None else known.additional
        return built_tokenizer(folder, config, mbart_vocabulary(folder / MBART_PIECES, languages))
    raise EdgespecError(
        f"{folder}: has no tokenizer; looked for tokenizer.json, spiece.model, source.spm, "
        f"{MBART_PIECES}, a tokenizer_class ByT5Tokenizer, and vocab.json with merges.txt"
    )


def read_tokenizer_json(path: Path) -> Tokenizer:
    """The tokenizer in a `tokenizer.json`, with truncation, padding and dropout off.

    Raises:
        EdgespecError: the file is missing or damaged, or newer than the installed tokenizers.
    """
    try:
        with quiet_panics():
            tokenizer = Tokenizer.from_file(str(path))
            tokenizer.no_truncation()
            tokenizer.no_padding()
            _choose_nothing_at_random(tokenizer)
            check_settings(tokenizer)
            try_texts(tokenizer)
    except BaseException as error:
        if not is_tokenizer_error(error):
            raise
        reason = one_line(error)
        raise EdgespecError(
            f"{path}: is not a tokenizer this version of tokenizers reads ({reason}): "
            "pip install --upgrade tokenizers, or download the file again"
        ) from None
    return tokenizer


def _choose_nothing_at_random(tokenizer: Tokenizer) -> None:
    """Takes BPE's dropout away, which is for training: a text would have other tokens each time."""
    model = tokenizer.model
    if getattr(model, "dropout", None):
        model.dropout = None
        tokenizer.model = model


def _class_name(folder: Path, config: JsonObject) -> str:
    return tokenizer_class(TokenizerSettings.read(folder), config, byte_level=False)


def _bpe_vocabulary(folder: Path) -> Vocabulary:
    """Vocabulary and merges as GPT-2's slow tokenizer kept them.

    Raises:
        EdgespecError: a file is damaged.
    """
    files = [str(folder / name) for name in BPE_FILES]
    try:
        with quiet_panics():
            vocab, merges = BPE.read_file(*files)
    except BaseException as error:
        if not is_tokenizer_error(error):
            raise
        raise EdgespecError(
            f"{' and '.join(files)}: cannot be read ({one_line(error)}); download them again"
        ) from None
    return {"type": "BPE", "vocab": vocab, "merges": merges}


def _extra_ids(path: Path, settings: JsonObject, default: int) -> int:
    count = settings.get("extra_ids", default)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 10_000:
        raise EdgespecError(
            f"{path}: extra_ids is {shortened(count)}, not a number from 0 to 10000"
        )
    return count
