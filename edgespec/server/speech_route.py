"""The routes that make text of sound: OpenAI's transcriptions and translations."""

from __future__ import annotations

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from edgespec.errors import EdgespecError, UsageError
from edgespec.openai.transcriptions import FIELDS, TranscriptionRequest, transcription_request
from edgespec.server.guarded_route import GuardedRoute, while_waited_for
from edgespec.server.http.event_stream import NAMED_EVENTS, EventStream
from edgespec.server.http.json_response import JsonResponse
from edgespec.server.http.upload import Upload, uploaded
from edgespec.server.request_record import RequestRecord
from edgespec.server.served import Served
from edgespec.server.served_speech import ServedSpeech
from edgespec.speech.transcript import Transcript

__all__ = ["SPEECH_PATHS", "SpeechRoute"]

# Path, and whether its transcripts are translated to English.
SPEECH_PATHS = {"/v1/audio/transcriptions": False, "/v1/audio/translations": True}


class SpeechRoute(GuardedRoute):
    """The ASGI application of one route."""

    def __init__(self, served: Served, path: str) -> None:
        super().__init__(served, path, NAMED_EVENTS)

    async def respond(
        self, http: HttpRequest, events: EventStream, record: RequestRecord
    ) -> Response | None:
        limits = self._served.limits
        async with (
            uploaded(http, limits.max_sound, limits.timeout) as upload,
            while_waited_for(http),
        ):
            return await self._answer(upload, events, record)

    async def _answer(
        self, upload: Upload, events: EventStream, record: RequestRecord
    ) -> Response | None:
        fields = upload.fields
        self._served.unknown.check(
            fields, lambda body: (name for name in body if name not in FIELDS)
        )
        speech = self._wanted(fields.get("model", [""])[-1])
        record.model = speech.name
        request = transcription_request(fields, translates=SPEECH_PATHS[self._path])
        speech.check()
        results: list[Transcript] = []
        try:
            return await self._made(speech, upload, request, results, events)
        except EdgespecError as error:
            # Where it lies here is nobody's business, and a sound that is none is the client's.
            said = str(error)
            if (path := str(upload.file)) not in said:
                raise
            raise UsageError(said.replace(path, "the sound")) from None
        finally:
            for result in results:
                record.sound_seconds = result.seconds
                record.drafted, record.accepted = result.stats.drafted, result.stats.accepted
                record.tokens = result.stats.tokens

    async def _made(
        self,
        speech: ServedSpeech,
        upload: Upload,
        request: TranscriptionRequest,
        results: list[Transcript],
        events: EventStream,
    ) -> Response | None:
        number = 0
        async for segment in speech.segments(upload.file, request.options, results):
            if request.streams:
                await events.send(request.piece(number, segment))
            number += 1
        (result,) = results
        if request.streams:
            await events.send(request.last(result))
            await events.done()
            return None
        if request.media_type is not None:
            return Response(request.text(result), media_type=request.media_type)
        return JsonResponse(request.whole(result))

    def _wanted(self, name: str) -> ServedSpeech:
        """The only speech model has any name, as the only model of texts."""
        speeches = self._served.speeches
        if not speeches:
            raise UsageError(
                "no model here makes text of sound; start the server with a speech pair, too: "
                "edgespec serve PAIR SPEECH_PAIR"
            )
        if len(speeches) == 1:
            return next(iter(speeches.values()))
        if name not in speeches:
            raise UsageError(f"model is {name[:60]!r}; give one of: {', '.join(speeches)}")
        return speeches[name]
