"""What is audited: a server with OpenAI's interface, or a command; each makes texts of prompts."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from edgespec.errors import EdgespecError, UsageError, one_line, shortened

__all__ = ["Answerer", "CommandAnswerer", "ServerAnswerer"]

TIMEOUT = 600  # seconds for a text
PROMPT = "{}"  # where a command takes the prompt; else from its standard input


class Answerer(Protocol):
    """Makes greedy texts; several threads may ask at once.

    Attributes:
        name: for people.
    """

    name: str

    def __call__(self, prompt: str) -> Sequence[str]:
        """A text in the pieces in which it came: tokens, where the program sends each alone.

        Raises:
            EdgespecError: there is no text.
        """
        ...


class ServerAnswerer:
    """A server, asked for streamed completions.

    Args:
        url: of the server, with or without /v1.
        model: the field of each request.
        tokens: of each text.
        chats: prompts are messages.
        more: further fields of each request.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str,
        tokens: int,
        chats: bool = False,
        key: str | None = None,
        more: Mapping[str, object] | None = None,
    ) -> None:
        base = url.rstrip("/")
        if not base.startswith(("http://", "https://")):
            raise UsageError(f"the URL is {shortened(url)}; give one such as http://127.0.0.1:8080")
        base = base if base.endswith("/v1") else f"{base}/v1"
        self.name = url
        self._base = base
        self._model = model
        self._chats = chats
        self._url = f"{base}/chat/completions" if chats else f"{base}/completions"
        self._headers = {"content-type": "application/json"}
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"
        fields = {"model": model, "max_tokens": tokens, "temperature": 0, "seed": 0, "stream": True}
        self._fields: dict[str, object] = {**fields, **(more or {})}

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the server says so of the model; most servers say nothing."""
        try:
            with urlopen(
                Request(f"{self._base}/models", None, self._headers), timeout=60
            ) as answer:
                cards = json.loads(answer.read())["data"]
            named = [card for card in cards if card["id"] == self._model] or cards
            return [card.get("is_encoder_decoder") for card in named] == [True]
        except (OSError, http.client.HTTPException, ValueError, LookupError):
            return False
        except (AttributeError, TypeError):  # another object than OpenAI's
            return False

    def __call__(self, prompt: str) -> Sequence[str]:
        """See `Answerer`."""
        message = [{"role": "user", "content": prompt}]
        asked: dict[str, object] = {"messages": message} if self._chats else {"prompt": prompt}
        body = json.dumps({**self._fields, **asked}).encode()
        try:
            with urlopen(Request(self._url, body, self._headers), timeout=TIMEOUT) as answer:
                return [*_pieces(answer)]
        except HTTPError as error:
            said = error.read(2000).decode(errors="replace")
            raise EdgespecError(
                f"{self._url} answers {error.code}: {shortened(said, 200)}"
            ) from None
        except (URLError, OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None)  # a URLError's, which only wraps it
            why = one_line(reason if isinstance(reason, OSError) else error)
            raise EdgespecError(f"{self._url} cannot be asked: {why}") from None


def _pieces(lines: Iterator[bytes]) -> Iterator[str]:
    """The texts of a stream of events."""
    for line in lines:
        data = line.decode(errors="replace").strip().removeprefix("data:").strip()
        if not line.startswith(b"data:") or data == "[DONE]":
            continue
        try:
            event = json.loads(data)
            choices = event.get("choices") or [{}]
            choice = choices[0]
            piece = choice.get("text") or (choice.get("delta") or {}).get("content") or ""
            failed = event.get("error")
        except (ValueError, AttributeError, LookupError, TypeError):
            raise EdgespecError(f"the server's event is {shortened(data)}, no completion") from None
        if failed:
            raise EdgespecError(f"the server's answer ended with {shortened(failed, 200)}")
        if piece:
            yield str(piece)


class CommandAnswerer:
    """A command that writes a text to its standard output.

    Args:
        words: its arguments; "{}" in them stands for the prompt, which else is its standard input.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self.name = " ".join(words)

    def __call__(self, prompt: str) -> Sequence[str]:
        """See `Answerer`; the pieces are words, with the white space before them."""
        takes = any(PROMPT in word for word in self._words)
        words = [word.replace(PROMPT, prompt) for word in self._words]
        try:
            done = subprocess.run(
                words,
                input=None if takes else prompt,
                stdin=subprocess.DEVNULL if takes else None,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT,
                check=False,
            )
        except (OSError, ValueError) as error:
            raise UsageError(f"{shortened(self._words[0])} cannot be run: {error}") from None
        except subprocess.TimeoutExpired:
            raise EdgespecError(f"{shortened(self.name)} took more than {TIMEOUT} s") from None
        if done.returncode:
            said = done.stderr.strip().splitlines()[-1:] or [""]
            raise EdgespecError(
                f"{shortened(self.name)} ended with {done.returncode}: {shortened(said[0], 200)}"
            )
        return _words(done.stdout)


def _words(text: str) -> Sequence[str]:
    parts = text.split(" ")
    return [parts[0], *(f" {part}" for part in parts[1:])]
