"""`edgespec generate`: a text from a prompt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgespec.artifact.chat_format import check_text, system_messages, user_message
from edgespec.artifact.text_file import read_standard_input, read_text
from edgespec.cli.options import (
    CHAT,
    GENERATION,
    LANGUAGES,
    PAIR,
    SHOWN,
    SYSTEM,
    TEMPLATE,
    check_shown,
    drafting,
    in_chat_format,
)
from edgespec.cli.parameters.grammar_options import GRAMMAR, grammar_option
from edgespec.cli.parameters.loading_options import LOADING, Loading
from edgespec.cli.parameters.model_defaults import check_greedy, generation_options
from edgespec.cli.parameters.prompt_cache import CachePath, with_prompt_cache
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.pair.prompt import PromptInput

__all__ = ["generate"]


@click.command(short_help="Generate text; exactly the target's own.")
@PAIR
@click.argument("prompt", required=False)
@click.option("--file", type=click.Path(path_type=Path), help="Read the prompt from a file.")
@GENERATION
@click.option("--ignore-eos", is_flag=True, help="Go on after the end of the text.")
@CHAT
@SYSTEM
@TEMPLATE
@click.option("--answer-start", help="The beginning of the answer, which is continued.")
@SHOWN
@click.option("--logprobs", is_flag=True, help="With --json: the target's log-probabilities.")
@click.option(
    "--top-logprobs",
    type=click.IntRange(0, 20),
    default=0,
    help="With --logprobs: also those of so many of the most probable tokens.",
)
@click.option(
    "--prompt-cache",
    type=CachePath(dir_okay=False, path_type=Path),
    help="Keep the prompt's cache in this file, or begin with what it keeps; the text is the same.",
)
@GRAMMAR
@LANGUAGES
@LOADING
def generate(
    prompt: str | None,
    file: Path | None,
    draft: str | None,
    no_draft: bool,
    show_draft: bool,
    stats: bool,
    as_json: bool,
    chat: bool | None,
    system: str | None,
    answer_start: str | None,
    json_schema: Path | None,
    regex: str | None,
    lark: Path | None,
    prompt_cache: Path | None,
    loading: Loading,
    **options: object,
) -> None:
    """Generate from PROMPT, from --file or from standard input (also as PROMPT "-").

    PAIR is an exported folder, or what `edgespec export` takes as TARGET: that is exported on first
    use. The text is exactly the target's own: greedy it is the same text as with --no-draft,
    sampled it has the same distribution.

    \b
    Examples:
      edgespec generate smollm2-135m "Why is the sky blue?" --stats
      edgespec generate build/flan --file letter.txt --temperature 0.8 --seed 1
    """
    from edgespec.cli.render import show_generation

    options["draft"] = drafting(draft, no_draft)
    check_greedy(options)
    check_shown(show_draft, as_json)
    if options["logprobs"] and not as_json:
        raise UsageError("--logprobs come with --json; give both")
    for name, value in (("--system", system), ("--answer-start", answer_start)):
        if value is not None and chat is False:
            raise UsageError(f"{name} is part of the chat format; leave --no-chat out")
    options["grammar"] = grammar_option(json_schema, regex, lark)
    text = _prompt(prompt, file)
    check_text(text, "the prompt")
    arguments = generation_options(loading.manifest, options)
    is_kept = prompt_cache is not None and prompt_cache.exists()
    pair = loading.pair(plainly=no_draft, prefix=prompt_cache if is_kept else None)
    given: PromptInput = text
    if system is None and answer_start is None:
        arguments["chat"] = in_chat_format(chat, pair.manifest)
    else:
        given = messages = [*system_messages(system), user_message(text)]
        if answer_start is not None:
            messages.append({"role": "assistant", "content": answer_start})
            arguments["continue_final_message"] = True
    if prompt_cache is not None:
        given = with_prompt_cache(pair, given, arguments, prompt_cache)
    stream = pair.stream(given, **arguments)
    show_generation(stream, show_draft=show_draft, stats=stats, as_json=as_json)


def _prompt(prompt: str | None, file: Path | None) -> str:
    if prompt is not None and file is not None:
        raise UsageError("there is a PROMPT and a --file; give one")
    if prompt is not None and prompt != "-":
        return prompt
    if file is not None:
        return read_text(file).rstrip("\n")
    if sys.stdin is None or (prompt is None and sys.stdin.isatty()):
        raise UsageError("no prompt; give PROMPT, --file or standard input")
    return read_standard_input().rstrip("\n")
