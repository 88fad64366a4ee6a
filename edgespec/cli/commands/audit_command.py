"""`edgespec audit`: whether a program's greedy text depends on what it must not depend on."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from edgespec.artifact.text_file import read_lines
from edgespec.cli.console import console_text
from edgespec.cli.progress_lines import say
from edgespec.errors import UsageError, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgespec.audit.answerers import Answerer
    from edgespec.audit.checks_of_texts import Finding

__all__ = ["audit"]

LENGTH = "length of a call"
DEPENDS = {
    "repeat": "on the time of asking",
    "neighbours": "on texts made at once",
    LENGTH: "on what is read in one call",
    "other": "on the other program",
}


@click.command(short_help="Does a server's greedy text depend on speculation, or on others?")
@click.argument("url", required=False)
@click.option("--against", metavar="URL", help="A server whose texts should be the same.")
@click.option(
    "--without",
    metavar="JSON",
    help="Fields that switch something off, such as speculation, for the texts of --against, or of "
    "URL if there is none.",
)
@click.option(
    "--command",
    "commands",
    multiple=True,
    metavar="COMMAND",
    help='Instead of a URL, twice: commands that write a text; "{}" is the prompt, else it is '
    "their standard input.",
)
@click.option("--model", default="default", show_default=True, help="The field of each request.")
@click.option("--api-key", envvar="EDGESPEC_API_KEY", help="For the servers.")
@click.option("--chat", is_flag=True, help="Ask for chat completions.")
@click.option(
    "--encoder-decoder",
    is_flag=True,
    help="The model is one; edgespec's server says it itself.",
)
@click.option(
    "--tokens", type=click.IntRange(2, 4096), default=64, show_default=True, help="Of each text."
)
@click.option(
    "--prompts",
    type=click.Path(path_type=Path),
    help="A file with a prompt a line; default: twelve of several kinds.",
)
@click.option(
    "--at-once", type=click.IntRange(1, 64), default=4, show_default=True, help="Texts, to compare."
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
def audit(
    url: str | None,
    against: str | None,
    without: str | None,
    commands: tuple[str, ...],
    model: str,
    api_key: str | None,
    chat: bool,
    encoder_decoder: bool,
    tokens: int,
    prompts: Path | None,
    at_once: int,
    as_json: bool,
) -> None:
    """Ask the server at URL, with OpenAI's interface, for greedy texts: each alone, again, together
    with others, and from its middle on; and perhaps another server, or it without speculation.

    A greedy text is a fact about the model; where two of the same prompt differ, something else had
    a say. The exit code is 1 then. A token is a piece of the stream. "From its middle on" is left
    out where nothing can be said of it: of chats, of commands, and of encoder-decoders, to which a
    prompt with a piece of its answer is another prompt.

    \b
    Example:
      edgespec audit http://127.0.0.1:8080 --against http://127.0.0.1:8081
      edgespec audit http://127.0.0.1:8080 --without '{"speculative.n_max": 0}'
      edgespec audit --command "a --fast {}" --command "a {}"
    """
    from edgespec.audit.audit_prompts import PROMPTS
    from edgespec.audit.checks_of_texts import audited

    asked = _Asked(model, tokens, chat, api_key)
    one, other = (
        _of_commands(url, commands) if commands else _of_servers(url, against, without, asked)
    )
    left_out = _left_out(one, chat, encoder_decoder)
    findings = audited(
        one,
        PROMPTS if prompts is None else read_lines(prompts),
        other=other,
        neighbours=1 if commands else at_once,
        continues=not left_out,
        said=say,
    )
    if as_json:
        found = [finding.to_dict() for finding in findings]
        click.echo(json.dumps({"tokens": tokens, "findings": found, "left_out": left_out}))
    else:
        _show(findings, left_out)
    if any(finding.differ for finding in findings):
        sys.exit(1)


class _Asked(NamedTuple):
    """What every server is asked."""

    model: str
    tokens: int
    chats: bool
    key: str | None


def _left_out(answerer: Answerer, chats: bool, is_encoder_decoder: bool) -> dict[str, str]:
    """The checks that say nothing of what is audited, and why."""
    from edgespec.audit.answerers import ServerAnswerer

    if not isinstance(answerer, ServerAnswerer):
        return {LENGTH: "a command's text is not gone on with"}
    if chats:
        return {LENGTH: "a chat's answer is not gone on with"}
    if is_encoder_decoder or answerer.is_encoder_decoder:
        why = "to an encoder-decoder, a prompt with a piece of its answer is another prompt"
        return {LENGTH: why}
    return {}


def _of_commands(url: str | None, commands: Sequence[str]) -> tuple[Answerer, Answerer | None]:
    """The two programs that commands name."""
    from edgespec.audit.answerers import CommandAnswerer

    if url is not None or len(commands) != 2:
        raise UsageError(f"{len(commands)} commands are given; give two of them and no URL")
    one, other = (CommandAnswerer(_words(command)) for command in commands)
    return one, other


def _of_servers(
    url: str | None, against: str | None, without: str | None, asked: _Asked
) -> tuple[Answerer, Answerer | None]:
    """The server, and the other one, or itself with other fields, if it is compared."""
    from edgespec.audit.answerers import ServerAnswerer

    if url is None:
        raise UsageError("there is nothing to audit; give a URL, or two commands")
    off = {} if without is None else _fields(without)
    one = ServerAnswerer(url, **asked._asdict())
    if against is None and not off:
        return one, None
    return one, ServerAnswerer(against or url, more=off, **asked._asdict())


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"the command is {shortened(command)}: {error}") from None
    if not words:
        raise UsageError("a command is empty; give a program and its arguments")
    return words


def _fields(text: str) -> dict[str, object]:
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise UsageError(f"--without is {shortened(text)}; give a JSON object")
    return fields


def _show(findings: Sequence[Finding], left_out: Mapping[str, str]) -> None:
    click.echo(f"{'check':18}{'texts':>6}{'differ':>8}{'first at token':>16}")
    for finding in findings:
        first = str(min(finding.first)) if finding.first else "-"
        click.echo(f"{finding.check:18}{finding.texts:6}{finding.differ:8}{first:>16}")
    for check, why in left_out.items():
        click.echo(f"{check} is left out: {why}")
    for finding in findings:
        if finding.example is not None:
            shown = {name: json.dumps(text) for name, text in finding.example.items()}
            click.echo(
                f"\nThe text depends {DEPENDS[finding.check]}, such as after {shown['prompt']}:"
            )
            click.echo(console_text(f"  {shown['one']}\n  {shown['other']}"))
