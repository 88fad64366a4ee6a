// Claim: a browser that refuses room, at any write, leaves an error of its own class and nothing that is
// taken for whole; with room again the download continues.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { EdgespecError, OutOfMemoryError, QuotaError } from "../src/errors.js";
import type { Folder, Host, Session } from "../src/host.js";
import { Cache as ModelCache } from "../src/pair/cache.js";
import { sha256Hex } from "../src/pair/digest.js";
import { openSessions } from "../src/pair/graph-model.js";
import type { Exported, Manifest, Variant } from "../src/pair/manifest.js";
import type { FileRecord } from "../src/pair/records.js";
import { download } from "../src/web/download.js";
import { LocalFolder, RemoteFolder } from "../src/web/folder.js";
import { KeptFiles, PIECE } from "../src/web/kept-files.js";

const CONTENT = new Uint8Array(randomBytes(2 * PIECE + 1000));
const WRITES = 4; // three pieces and the mark
const file: FileRecord = { bytes: CONTENT.length, sha256: await sha256Hex(CONTENT) };

/** Cache Storage that refuses writes after the first `room`. */
class SmallCache {
  readonly #kept = new Map<string, Uint8Array<ArrayBuffer>>();

  constructor(public room: number) {}

  async put(url: string, response: Response): Promise<void> {
    const content = new Uint8Array(await response.arrayBuffer());
    if (this.room-- <= 0) throw new DOMException("Quota exceeded.", "QuotaExceededError");
    this.#kept.set(url, content);
  }

  async match(url: string): Promise<Response | undefined> {
    const content = this.#kept.get(url);
    return content && new Response(content);
  }

  async delete(url: string): Promise<boolean> {
    return this.#kept.delete(url);
  }
}

describe("a browser without room", () => {
  let server: Server;
  let url: string;

  before(async () => {
    server = createServer((request, response) => {
      const start = Number(/\d+/.exec(request.headers.range ?? "0")![0]);
      response.writeHead(start > 0 ? 206 : 200).end(CONTENT.subarray(start));
    });
    await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/weights.data`;
  });

  after(() => server.close());

  let cache: SmallCache;

  beforeEach(() => {
    cache = new SmallCache(0);
    Object.assign(globalThis, { caches: { open: async () => cache } });
  });

  afterEach(() => {
    Reflect.deleteProperty(globalThis, "caches");
  });

  for (let room = 0; room < WRITES; room++) {
    test(`that takes ${room} of ${WRITES} writes: QuotaError, not whole, and it continues`, async () => {
      cache.room = room;
      const kept = await KeptFiles.open();
      await assert.rejects(
        download(url, file, kept, () => undefined),
        isOneSentence(QuotaError),
      );
      assert.equal(await kept.has(file), false);
      cache.room = Infinity;
      await download(url, file, kept, () => undefined);
      assert.equal(await kept.has(file), true);
      assert.deepEqual(await kept.content(file), CONTENT);
    });
  }

  for (const [what, bytes] of [
    ["short", PIECE - 1],
    ["long", PIECE + 1],
  ] as const) {
    test(`a piece that is too ${what} counts as missing`, async () => {
      cache.room = Infinity;
      const kept = await KeptFiles.open();
      await download(url, file, kept, () => undefined);
      await kept.addPiece(file, 1, new Uint8Array(bytes));
      assert.equal(await kept.content(file), null);
    });
  }

  test("on a disk that is full, though the browser says that there is room: the reason is told", async () => {
    const kept = await KeptFiles.open();
    cache.put = () => Promise.reject({ toString: () => "NS_ERROR_FILE_NO_DEVICE_SPACE" }); // no Error in Firefox
    await assert.rejects(
      download(url, file, kept, () => undefined),
      /more \(NS_ERROR_FILE_NO_DEVICE_SPACE\); free room/,
    );
  });

  test("that says so beforehand: nothing is requested", async (context) => {
    const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
    const navigator = { storage: { estimate: async () => ({ quota: 1000, usage: 900 }) } };
    Object.defineProperty(globalThis, "navigator", { value: navigator, configurable: true });
    context.after(() =>
      before ? Object.defineProperty(globalThis, "navigator", before) : Reflect.deleteProperty(globalThis, "navigator"),
    );
    const folder = new RemoteFolder("http://127.0.0.1:1", await KeptFiles.open(), () =>
      assert.fail("no graph is opened"),
    );
    await assert.rejects(folder.prepare(new Map([["weights.data", file]]), {}), isOneSentence(QuotaError));
  });
});

test("weights that graphs share are read once, after the graphs", async () => {
  const read: string[] = [];
  const blob = (name: string, size: number) =>
    ({ arrayBuffer: async () => (read.push(name), new ArrayBuffer(size)) }) as unknown as Blob;
  const files = ["t/weights.data", "t/encoder.onnx", "t/decoder.onnx"].map(
    (name, size) => [name, blob(name, size + 1)] as const,
  );
  const opened: [graph: number, weights: string[]][] = [];
  const folder = new LocalFolder(new Map(files), async (graph, weights) => {
    opened.push([graph.length, weights.map(({ path, data }) => `${path}: ${data.length}`)]);
    return {} as Session;
  });
  const graphs = await folder.readGraphs(["t/encoder.onnx", "t/decoder.onnx"], ["t/weights.data"]);
  assert.deepEqual(read, ["t/encoder.onnx", "t/decoder.onnx", "t/weights.data"]);
  assert.deepEqual(opened, []);
  for (const open of graphs) await open();
  assert.deepEqual(opened, [
    [2, ["weights.data: 1"]],
    [3, ["weights.data: 1"]],
  ]);
});

describe("out of memory", () => {
  test("for the weights: the runtime's failure has a class, and what was opened is freed", async () => {
    let released = 0;
    const session = {
      inputNames: [],
      outputNames: [],
      run: () => assert.fail("nothing runs"),
      release: async () => void released++,
    };
    const opened = [async () => session, async () => Promise.reject(new RangeError("Array buffer allocation failed"))];
    const folder = { readGraphs: async () => opened } as unknown as Folder;
    const variant = { graphs: { encoder: "t/encoder.onnx", decoder: "t/decoder.onnx" } } as unknown as Variant;
    const opening = openSessions(folder, { files: {} } as Manifest, variant);
    await assert.rejects(opening, isOneSentence(OutOfMemoryError));
    assert.equal(released, 1);
  });

  test("for a cache", async () => {
    const model = { layers: 1, kv_heads: 2 ** 20, head_size: 2 ** 20 } as unknown as Exported;
    const cache = new ModelCache({} as Host, model, "fp32");
    await assert.rejects(cache.reserve(0, 1000), isOneSentence(OutOfMemoryError));
  });
});

function isOneSentence(Class: new (...given: never[]) => EdgespecError): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof Class, String(error));
    assert.match(error.message, /^[^\n]+; [^\n]+$/);
    return true;
  };
}
