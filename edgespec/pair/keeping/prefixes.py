"""What a pair does with prompts whose caches are kept in files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgespec.errors import UsageError
from edgespec.pair.keeping.identity import identity_of
from edgespec.pair.keeping.kept_file import open_prefix, prefix_content
from edgespec.pair.keeping.prefix_folder import PrefixFolder

if TYPE_CHECKING:
    from edgespec.pair.parts import PairParts
    from edgespec.pair.prompt import PromptInput
    from edgespec.pair.text_engine import TextEngine

__all__ = ["KeepsPrefixes"]


class KeepsPrefixes(ABC):
    """What a pair does with files of kept prompts."""

    @property
    @abstractmethod
    def text_engine(self) -> TextEngine:
        """What makes texts."""

    def save_prefix(
        self, prompt: PromptInput, path: str | Path, *, chat: bool | None = None
    ) -> int:
        """Keeps what the caches hold of a prompt in a file, for `load(prefix=...)` and
        `use_prefix`; what they lack of it is computed now.

        The file is as large as the caches' part, and holds the prompt: only its owner can read it.

        Args:
            prompt, chat: as of `stream`; texts that begin like it need not compute that again.

        Returns the number of tokens that were kept.

        Raises:
            UsageError: the prompt is too long, or a stream is running.
            EdgespecError: the file cannot be written, or the caches are in a device's memory.
        """
        engine = self.text_engine
        tokens, spans = _encoded(engine, prompt, chat)
        parts = engine.parts
        with engine.occupied():
            _compute(parts, tokens, spans)
            prefix_content(parts, Path(path)).write(Path(path))
        return len(tokens)

    def use_prefix(self, path: str | Path) -> int:
        """Lets texts that begin like a kept prompt begin with its cache. They are what they would
        be without it, token by token and bit by bit.

        Returns the number of tokens that were kept.

        Raises:
            EdgespecError: the file cannot be read, is damaged, or was kept with other models or
                programs, whose numbers may be others.
        """
        engine = self.text_engine
        kept = open_prefix(identity_of(engine.parts), Path(path))
        engine.use_prefix(kept)
        return len(kept.tokens)

    def keep_prompts(self, folder: str | Path, most_bytes: int) -> None:
        """Lets batches that are made from now on (`many`, `amany`) keep what their caches hold in
        files, before others take their places and at the end, and begin with it. The folder holds
        what was said: only its owner can read it.

        Args:
            most_bytes: of all files of this pair; those that were not used for the longest time go.

        Raises:
            UsageError: texts do not share calls here, or an encoder reads their prompts.
            EdgespecError: the folder cannot be made.
        """
        engine = self.text_engine
        if not engine.parts.shares_calls or engine.parts.manifest.target.is_encoder_decoder:
            raise UsageError(
                f"prompts of {engine.parts.manifest.target.source} cannot be kept in a folder: "
                "that needs texts that share calls (kernels; see edgespec inspect), and no encoder"
            )
        engine.kept_prompts = PrefixFolder(engine.parts, Path(folder), most_bytes)

    def forget_prefix(self) -> None:
        """Ends the use of the prefix; its file stays."""
        self.text_engine.forget_prefix()


def _encoded(
    engine: TextEngine, prompt: PromptInput, chat: bool | None
) -> tuple[list[int], Sequence[range] | None]:
    """A prompt's tokens, and the positions of earlier answers, as of `Model.prefill`."""
    encoded = engine.encoder(prompt, chat, most=engine.longest_prompt)
    return encoded.tokens, engine.assistant_spans(encoded, has_prefix=True)


def _compute(parts: PairParts, tokens: list[int], spans: Sequence[range] | None) -> None:
    """Fills the caches with all positions of a prompt; reading one leaves its last token out."""
    is_source = parts.manifest.target.is_encoder_decoder
    room = parts.target.capacity - 1
    if not is_source and len(tokens) > room:
        raise UsageError(
            f"the prompt has {len(tokens)} tokens and a cache that goes on has room for {room}; "
            "keep a shorter one, or give more capacity (--capacity)"
        )
    read = tokens if is_source else [*tokens, tokens[-1]]
    parts.target.prefill(read, spans)
    if parts.draft is not None:
        parts.draft.prefill(*parts.vocabulary.prompt(read, spans))
