"""A hub on the loopback address: what huggingface_hub asks of one, in memory."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Hub:
    """The state of the hub.

    Attributes:
        repositories: files by name, of each repository at its newest commit.
        sent: bytes of each file that were sent to clients.
        blobs: large files that were uploaded, by digest; a commit may name them.
        uploads: how many large files were uploaded.
        stops_after: bytes of an answer, or uploads, after which the connection is cut; None: never.
        requests: each method and path.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.sent: dict[str, int] = {}
        self.blobs: dict[str, bytes] = {}
        self.uploads = 0
        self.stops_after: int | None = None
        self.requests: list[str] = []
        self.address = ""

    def commit_of(self, repository: str) -> str:
        digest = hashlib.sha1()
        for name, content in sorted(self.repositories[repository].items()):
            digest.update(name.encode() + content)
        return digest.hexdigest()


@contextmanager
def running_hub() -> Iterator[Hub]:
    hub = Hub()

    class Handler(_Handler):
        state = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._file(with_content=False)

    def do_GET(self) -> None:
        self.state.requests.append(f"GET {self.path}")
        if found := re.match(r"/api/models/([^/]+/[^/?]+)(/revision/[^?]+)?", self.path):
            self._information(found[1])
        else:
            self._file(with_content=True)

    def do_PUT(self) -> None:
        content = self._body()
        if self.state.stops_after is not None and self.state.uploads >= self.state.stops_after:
            self.close_connection = True
            self.connection.close()
            return
        self.state.uploads += 1
        self.state.blobs[hashlib.sha256(content).hexdigest()] = content
        self._answer({})

    def do_POST(self) -> None:
        self.state.requests.append(f"POST {self.path}")
        body = self._body()
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = "/".join(filter(None, (asked.get("organization"), asked["name"])))
            self.state.repositories.setdefault(name, {})
            self._answer({"url": f"{self.state.address}/{name}", "name": name})
        elif "/preupload/" in self.path:
            modes = [
                {"path": f["path"], "uploadMode": self._mode(f["path"]), "shouldIgnore": False}
                for f in json.loads(body)["files"]
            ]
            self._answer({"files": modes})
        elif self.path.endswith("/info/lfs/objects/batch"):
            asked = json.loads(body)["objects"]
            self._answer({"transfer": "basic", "objects": [*map(self._upload_of, asked)]})
        else:
            self._commit(body)

    def _mode(self, name: str) -> str:
        return "lfs" if name.endswith((".onnx", ".data")) else "regular"

    def _upload_of(self, asked: dict) -> dict:
        place = {"href": f"{self.state.address}/blobs/{asked['oid']}", "header": {}}
        known = asked["oid"] in self.state.blobs
        return asked if known else {**asked, "actions": {"upload": place}}

    def _commit(self, body: bytes) -> None:
        repository = re.match(r"/api/models/([^/]+/[^/]+)/commit/", self.path)[1]
        files = dict(self.state.repositories[repository])
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.state.blobs[value["oid"]]
        self.state.repositories[repository] = files
        commit = self.state.commit_of(repository)
        address = f"{self.state.address}/{repository}/commit/{commit}"
        self._answer({"commitUrl": address, "commitOid": commit, "success": True})

    def _information(self, repository: str) -> None:
        if repository not in self.state.repositories:
            self._missing("RepoNotFound")
            return
        files = [{"rfilename": name} for name in self.state.repositories[repository]]
        commit = self.state.commit_of(repository)
        self._answer({"id": repository, "sha": commit, "siblings": files, "private": False})

    def _file(self, with_content: bool) -> None:
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path)
        content = found and self.state.repositories.get(found[1], {}).get(found[3])
        if content is None or self.state.commit_of(found[1]) != found[2]:
            self._missing("EntryNotFound")
            return
        begun = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        self.send_response(206 if begun else 200)
        rest = content[begun:]
        self.send_header("Content-Length", str(len(rest)))
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", found[2])
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if not with_content:
            return
        stops = self.state.stops_after
        cut = rest if stops is None else rest[:stops]
        # Counted before: a client may have all of it, and end, before this thread goes on.
        self.state.sent[found[3]] = self.state.sent.get(found[3], 0) + len(cut)
        self.wfile.write(cut)
        if len(cut) < len(rest):
            self.wfile.flush()
            self.close_connection = True

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, data: dict) -> None:
        content = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _missing(self, code: str) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()
