"""A pair that is served, and the texts that are made and wait in it; several under their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec.openai.json_value import JsonObject, JsonValue
from edgespec.openai.openai_logprobs import TokenTexts
from edgespec.pair.concurrent.async_batch import AsyncBatch
from edgespec.pair.pair import Pair
from edgespec.server.limits import Limits

__all__ = ["QueueFullError", "ServedModel", "ServedModels", "UnknownModelError", "model_card"]


LATEST = ":latest"  # Ollama's clients may add it to a name


class QueueFullError(EdgespecError):
    """As many texts wait as may wait. Status 429."""


class UnknownModelError(UsageError):
    """No model of this name is served. Status 404."""


def model_card(name: str) -> JsonObject:
    """OpenAI's object for a model, which has the fields of Anthropic's, too."""
    own: JsonObject = {"id": name, "object": "model", "created": 0, "owned_by": "edgespec"}
    more = {"type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
    return {**own, **more}


@dataclass(frozen=True)
class ServedModel:
    """One pair of a server. It has its own thread, so pairs do not wait for each other.

    Attributes:
        name: the model's name in requests and answers.
        batch: makes its texts.
        token_texts: of its single tokens.
        queue: texts that may wait while others are made.
    """

    name: str
    pair: Pair
    batch: AsyncBatch
    token_texts: TokenTexts
    queue: int

    @property
    def card(self) -> JsonObject:
        """OpenAI's object for a model, and what its texts say that begin with a piece of an answer:
        an encoder-decoder takes that for another prompt (`edgespec audit` asks)."""
        is_encoder_decoder = self.pair.manifest.target.is_encoder_decoder
        return {**model_card(self.name), "is_encoder_decoder": is_encoder_decoder}

    def check(self) -> None:
        """Raises QueueFullError if another text cannot wait."""
        if self.batch.is_full and self.batch.waiting >= self.queue:
            raise QueueFullError(
                f"{self.batch.waiting} texts are waiting, and the queue holds {self.queue}; try "
                "again later, or start the server with a longer --queue"
            )


class ServedModels:
    """All pairs of a server, by their names.

    Args:
        pairs: that make texts; perhaps none, beside speech pairs.
        limits: of each.
    """

    def __init__(self, pairs: Mapping[str, Pair], limits: Limits) -> None:
        self._models = {
            name: ServedModel(
                name,
                pair,
                AsyncBatch(pair.many(limits.texts)),
                TokenTexts(pair.tokenizer),
                limits.queue,
            )
            for name, pair in pairs.items()
        }

    @property
    def all(self) -> list[ServedModel]:
        return list(self._models.values())

    def named(self, name: str) -> ServedModel:
        """The model of this name. Raises UnknownModelError if there is none."""
        name = name if name in self._models else name.removesuffix(LATEST)
        if name not in self._models:
            raise UnknownModelError(
                f"The model `{shortened(name)[1:-1]}` does not exist here; give one of: "
                f"{', '.join(self._models)}"
            )
        return self._models[name]

    def wanted(self, name: JsonValue) -> ServedModel:
        """The model that a request's field `model` names. The only one has any name, so that
        programs which are set to a model of OpenAI need no change.

        Raises:
            UnknownModelError: it names no model.
            UsageError: there are several, and it is no text.
        """
        if len(self._models) == 1:
            return self.all[0]
        if not self._models:
            raise UnknownModelError(
                "no model here makes text of text, only of sound; ask at /v1/audio/transcriptions"
            )
        if not isinstance(name, str):
            raise UsageError(f"model is {shortened(name)}; give one of: {', '.join(self._models)}")
        return self.named(name)

    def check(self) -> None:
        """Raises QueueFullError if no model has room for another text."""
        for model in self.all:
            if not model.batch.is_full or model.batch.waiting < model.queue:
                return
        for model in self.all:
            model.check()
