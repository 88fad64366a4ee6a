"""What a server says of its models, to clients of each interface."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from edgespec.errors import EdgespecError
from edgespec.ollama.ollama_models import model_card, model_details, running_card
from edgespec.openai.json_value import JsonObject
from edgespec.server.http.body import json_object, read_body
from edgespec.server.http.json_response import JsonResponse
from edgespec.server.request_record import record_of
from edgespec.server.served import Served
from edgespec.server.served_model import UnknownModelError
from edgespec.server.statuses import refusal
from edgespec.server.text_apis import read_message
from edgespec.version import VERSION

__all__ = ["ModelRoutes"]

OLLAMA = "0.12.0"  # the version of Ollama whose API this is; clients compare it


class ModelRoutes:
    """The routes that make no text."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route("/v1/messages/count_tokens", self.count_tokens, methods=["POST"]),
            Route("/api/tags", self.tags),
            Route("/api/ps", self.running),
            Route("/api/show", self.show, methods=["POST"]),
            Route("/api/version", self.version),
        ]

    async def models(self, _: HttpRequest) -> Response:
        """OpenAI's list, which is also Anthropic's."""
        texts, speeches = self._served.by_name.all, self._served.speeches
        names = [*(model.name for model in texts), *speeches]
        cards = [*(model.card for model in texts), *(model.card for model in speeches.values())]
        pages: JsonObject = {"has_more": False, "first_id": names[0], "last_id": names[-1]}
        return JsonResponse({"object": "list", "data": cards, **pages})

    async def model(self, http: HttpRequest) -> Response:
        """One of the list."""
        name = http.path_params["name"]
        try:
            if name in self._served.speeches:
                return JsonResponse(self._served.speeches[name].card)
            return JsonResponse(self._served.by_name.named(name).card)
        except UnknownModelError as error:
            return refusal(http.url.path, error)

    async def count_tokens(self, http: HttpRequest) -> Response:
        """Anthropic's number of tokens of a request's prompt."""
        try:
            text = await read_body(http, self._served.limits)
            tokens = await self._served.readers.run(partial(self._tokens, text))
            return JsonResponse({"input_tokens": tokens})
        except EdgespecError as error:
            return refusal(http.url.path, error)

    def _tokens(self, text: bytes) -> int:
        body = json_object(text)
        model = self._served.by_name.wanted(body.get("model"))
        request = read_message(body, model).request
        encoded = model.batch.batch.encoded(request.prompts[0], request.options)
        return len(encoded.tokens)

    async def tags(self, _: HttpRequest) -> Response:
        """Ollama's list."""
        models = self._served.by_name.all
        return JsonResponse({"models": [model_card(model.name, model.pair) for model in models]})

    async def running(self, _: HttpRequest) -> Response:
        """Ollama's list of loaded models: all."""
        models = self._served.by_name.all
        return JsonResponse({"models": [running_card(model.name, model.pair) for model in models]})

    async def show(self, http: HttpRequest) -> Response:
        """Ollama's description of a model."""
        try:
            body = json_object(await read_body(http, self._served.limits))
            model = self._served.by_name.wanted(body.get("model", body.get("name")))
            record_of(http.scope).model = model.name
            details = partial(model_details, model.name, model.pair)
            return JsonResponse(await self._served.readers.run(details))
        except EdgespecError as error:
            return refusal(http.url.path, error)

    async def version(self, _: HttpRequest) -> Response:
        """Of Ollama's API, and of this program."""
        return JsonResponse({"version": OLLAMA, "edgespec": VERSION})
