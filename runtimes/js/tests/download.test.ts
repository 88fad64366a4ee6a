// Claim: a download continues where it was aborted, and nothing half-kept is taken for whole.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, test } from "node:test";
import { AbortedError, FileChangedError, FileMissingError, OfflineError } from "../src/errors.js";
import { sha256Hex } from "../src/pair/digest.js";
import type { FileRecord } from "../src/pair/records.js";
import { download } from "../src/web/download.js";
import { RemoteFolder } from "../src/web/folder.js";
import { KeptFiles, PIECE } from "../src/web/kept-files.js";

const CONTENT = new Uint8Array(randomBytes(10_000_000)); // two whole pieces and a part

async function recordOf(content: Uint8Array<ArrayBuffer>): Promise<FileRecord> {
  return { bytes: content.length, sha256: await sha256Hex(content) };
}

const file = await recordOf(CONTENT);

describe("download", () => {
  let server: Server;
  let url: string;
  let kept: KeptFiles;
  let answer: (request: IncomingMessage, response: ServerResponse) => void;
  let ranges: (string | undefined)[]; // of the requests so far
  let seen: number[]; // bytes that were reported

  beforeEach(async () => {
    [ranges, seen] = [[], []];
    answer = send(CONTENT);
    server = createServer((request, response) => {
      ranges.push(request.headers.range);
      answer(request, response);
    });
    await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/weights.data`;
    kept = await KeptFiles.open();
  });

  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  const get = (record = file, signal?: AbortSignal): Promise<void> =>
    download(url, record, kept, (bytes) => seen.push(bytes), signal);
  const reported = (): number => seen.reduce((a, b) => a + b, 0);

  function send(content: Uint8Array, { ranged = true, until = content.length } = {}) {
    return (request: IncomingMessage, response: ServerResponse): void => {
      const start = ranged ? Number(/\d+/.exec(request.headers.range ?? "0")![0]) : 0;
      response.writeHead(start > 0 ? 206 : 200, { "Content-Length": content.length - start });
      response.write(content.subarray(start, until), () => {
        if (until < content.length) response.destroy();
        else response.end();
      });
    };
  }

  async function checkWhole(): Promise<void> {
    assert.equal(await kept.has(file), true);
    assert.deepEqual(await kept.content(file), CONTENT);
  }

  test("a file is kept whole, its bytes are reported, and it is not requested again", async () => {
    await get();
    await checkWhole();
    assert.equal(reported(), file.bytes);
    await get();
    assert.equal(ranges.length, 1);
    assert.equal(reported(), 2 * file.bytes);
  });

  for (const ranged of [true, false]) {
    test(`a broken download continues after its whole pieces, ${ranged ? "by a range" : "from a server without ranges"}`, async () => {
      answer = send(CONTENT, { until: PIECE + 1000 });
      await assert.rejects(get(), OfflineError);
      assert.equal(await kept.has(file), false);
      answer = send(CONTENT, { ranged });
      seen = [];
      await get();
      await checkWhole();
      assert.deepEqual(ranges, [undefined, `bytes=${PIECE}-`]);
      assert.equal(seen[0], PIECE);
      assert.equal(reported(), file.bytes);
    });
  }

  test("an aborted download is not whole, and continues", async () => {
    const stopping = new AbortController();
    answer = (_, response) => {
      response.writeHead(200, { "Content-Length": CONTENT.length });
      response.write(CONTENT.subarray(0, 2 * PIECE), () => setTimeout(() => stopping.abort(), 200));
    };
    await assert.rejects(get(file, stopping.signal), AbortedError);
    assert.equal(await kept.has(file), false);
    answer = send(CONTENT);
    await get();
    await checkWhole();
  });

  test("a changed file is refused, dropped, and taken when it is right again", async () => {
    const changed = CONTENT.slice();
    changed[5_000_000]! ^= 1;
    answer = send(changed);
    await assert.rejects(get(), FileChangedError);
    assert.deepEqual(await kept.partial(file), { pieces: 0, bytes: 0 });
    answer = send(CONTENT);
    await get();
    await checkWhole();
  });

  test("a longer file is refused, a shorter one is not whole", async () => {
    answer = send(new Uint8Array([...CONTENT, 1]));
    await assert.rejects(get(), FileChangedError);
    answer = (_, response) => response.end(CONTENT.subarray(0, 1000));
    await assert.rejects(get(), OfflineError);
    assert.equal(await kept.has(file), false);
  });

  test("a missing file, a refusing server and no server are told apart", async () => {
    answer = (_, response) => response.writeHead(404).end();
    await assert.rejects(get(), FileMissingError);
    answer = (_, response) => response.writeHead(503).end();
    await assert.rejects(get(), /answers 503/);
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
    await assert.rejects(get(), /no connection/);
  });

  test("a file that lost a piece after it was whole is downloaded again when it is read", async () => {
    const folder = new RemoteFolder(url.slice(0, url.lastIndexOf("/")), kept, () => assert.fail("no graph is opened"));
    await folder.prepare(new Map([["weights.data", file]]), {});
    await kept.remove(`${file.sha256}/1`);
    assert.equal(await kept.content(file), null);
    assert.deepEqual(await folder.read("weights.data"), CONTENT);
    await checkWhole();
  });

  test("dropping a file leaves nothing, gaps or not", async () => {
    await get();
    await kept.remove(`${file.sha256}/0`);
    await kept.drop(file);
    for (const piece of ["whole", 0, 1, 2]) assert.equal(await kept.get(`${file.sha256}/${piece}`), null);
  });

  test("an empty file is whole", async () => {
    const empty = await recordOf(new Uint8Array());
    answer = (_, response) => response.end();
    await get(empty);
    assert.deepEqual(await kept.content(empty), new Uint8Array());
  });
});
