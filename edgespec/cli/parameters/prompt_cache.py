"""`--prompt-cache`, and what it does for a command that makes one text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgespec.cli.progress_lines import say
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.pair.generation_options import GenerationOptions
    from edgespec.pair.pair import Pair
    from edgespec.pair.prompt import Prompt, PromptInput

__all__ = ["CachePath", "with_prompt_cache"]


class CachePath(click.Path):
    """Of a file or a folder with kept prompts; an empty one would be the folder of the process."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            raise UsageError("--prompt-cache is empty; give a path, or leave it out")
        return super().convert(value, param, ctx)


def with_prompt_cache(
    pair: Pair, prompt: PromptInput, options: GenerationOptions, file: Path
) -> Prompt:
    """The prompt's tokens. The pair was loaded with what the file keeps; a file that is not there
    is made, of this prompt.

    Raises:
        UsageError: the prompt is refused.
        EdgespecError: the file cannot be written.
    """
    from edgespec.core.model import common_length

    engine = pair.text_engine
    read = engine.read.prompt(prompt, options, engine.longest_prompt)
    if not file.exists():
        pair.save_prefix(read, file)
        pair.use_prefix(file)
    kept = engine.prefix_tokens
    common = common_length(kept, read.tokens)
    if 2 * common < min(len(kept), len(read.tokens)):
        say(
            f"{file} keeps another beginning: {common} of its {len(kept)} tokens are those of this "
            f"prompt, which has {len(read.tokens)}; delete the file, and the next prompt is kept"
        )
    return read
