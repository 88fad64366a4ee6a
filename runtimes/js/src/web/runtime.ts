// onnxruntime-web, set up once for a page or a worker.

import type * as Ort from "onnxruntime-web";
import { asRuntimeError, NoSimdError, NoThreadsError, NoWebGpuError, UsageError } from "../errors.js";
import type { Host } from "../host.js";
import { Heap } from "./heap.js";
import type { OpenGraph } from "./open-graph.js";

export type Provider = "wasm" | "webgpu";

/** How the runtime is set up; the first pair of a page or worker decides for all. */
export interface RuntimeOptions {
  /** "wasm", the default, or "webgpu". */
  readonly provider?: Provider;
  /** Threads of WebAssembly. By default half the cores, at most 4, and 1 where the page is not isolated. */
  readonly threads?: number;
  /**
   * Caches stay in WebAssembly's memory instead of being copied at each call. It takes the runtime's C exports, of the one
   * version of onnxruntime-web that they were tested with, and files of that version at `wasmPaths`.
   */
  readonly inPlace?: boolean;
  /** The URL of the folder with onnxruntime-web's `.wasm` and `.mjs` files; by default where it was loaded from. */
  readonly wasmPaths?: string;
}

/** The runtime and what decides its bits. */
export interface Runtime {
  readonly ort: typeof Ort;
  readonly provider: Provider;
  readonly threads: number;
  /** The GPU, where there is one. */
  readonly hardware: string;
  readonly open: OpenGraph;
  /** Whether calls write outputs into given tensors. */
  readonly writesOutputs: boolean;
  /** For calls of sessions that were opened before. */
  readonly tensor: Host["tensor"];
}

const IN_PLACE_VERSION = "1.30.0"; // of onnxruntime-web, whose C exports `Heap` calls
const MAX_THREADS = 4;

let started: {
  readonly provider: Provider;
  readonly threads: number;
  readonly inPlace: boolean;
  readonly calls: Calls;
} | null = null;

/** @throws NoSimdError, NoThreadsError, NoWebGpuError, UsageError. */
export async function startRuntime(options: RuntimeOptions = {}): Promise<Runtime> {
  const { provider = "wasm" } = options;
  if (!WebAssembly.validate(SIMD)) throw new NoSimdError();
  const threads = threadsFor(options.threads);
  const inPlace = options.inPlace ?? false;
  const hardware = provider === "webgpu" ? await gpuName() : "";
  // The settings are the module's own: the runtime reads them at the first session and never again.
  if (
    started !== null &&
    (started.provider !== provider || started.threads !== threads || started.inPlace !== inPlace)
  ) {
    throw new UsageError(
      `the runtime was started otherwise (${started.provider}, ${started.threads} threads, ${started.inPlace ? "in place" : "copying"}) than is asked for now; load this pair in another worker`,
    );
  }
  const ort: typeof Ort =
    provider === "webgpu" ? await import("onnxruntime-web/webgpu") : await import("onnxruntime-web/wasm");
  ort.env.wasm.numThreads = threads;
  ort.env.logLevel = "error";
  if (options.wasmPaths !== undefined) ort.env.wasm.wasmPaths = options.wasmPaths;
  started ??= {
    provider,
    threads,
    inPlace,
    calls: inPlace ? inHeap(openHeap(ort, options)) : copying(ort, provider, warmUp(ort, provider)),
  };
  return { ort, provider, threads, hardware, ...started.calls };
}

type Calls = Pick<Runtime, "open" | "writesOutputs" | "tensor">;

/** Opens one graph after the other: the runtime has a place for the weights of one. */
function inTurn(open: OpenGraph): OpenGraph {
  let last: Promise<unknown> = Promise.resolve();
  return (graph, weights) => {
    const opened = last.then(() => open(graph, weights));
    last = opened.then(
      () => undefined,
      () => undefined,
    );
    return opened;
  };
}

/** @param opening is awaited with the first graph, so that files are read while WebAssembly is compiled. */
function inHeap(opening: Promise<Heap>): Calls {
  let heap: Heap | undefined;
  opening.catch(() => undefined); // it fails with the first graph
  return {
    open: inTurn(async (graph, weights) => (heap = await opening).openSession(graph, weights)),
    writesOutputs: true,
    tensor: (type, data, dims) => heap!.tensor(type, data, dims),
  };
}

/** @throws UsageError: in place, with another version, provider or no address of the files. */
function openHeap(ort: typeof Ort, { provider = "wasm", threads, wasmPaths }: RuntimeOptions): Promise<Heap> {
  const version = ort.env.versions.web;
  if (version !== IN_PLACE_VERSION) {
    throw new UsageError(
      `inPlace needs onnxruntime-web ${IN_PLACE_VERSION} and this is ${version}; install that version or leave inPlace out`,
    );
  }
  if (provider !== "wasm")
    throw new UsageError(`inPlace was asked for with ${provider}; it works with the provider wasm`);
  if (wasmPaths === undefined)
    throw new UsageError("inPlace needs wasmPaths; give the URL of the folder with the runtime's files");
  return Heap.open(new URL("ort-wasm-simd-threaded.mjs", wasmPaths).href, threadsFor(threads)).catch(
    (error: unknown) => {
      started = null; // the next load tries again
      throw asRuntimeError("starting WebAssembly", error);
    },
  );
}

// The runtime compiles its WebAssembly when the first session is opened. With one that does nothing, that
// happens while files are read. If it fails, opening the pair's graphs fails for the same reason.
function warmUp(ort: typeof Ort, provider: Provider): Promise<unknown> {
  const session = ort.InferenceSession.create(NOTHING, { executionProviders: [provider] });
  return session.then((opened) => opened.release()).catch(() => undefined);
}

/** @param warm is awaited, for it opens a session, too. */
function copying(ort: typeof Ort, provider: Provider, warm: Promise<unknown>): Calls {
  return {
    open: inTurn(async (graph, weights) => {
      await warm;
      return ort.InferenceSession.create(graph, {
        executionProviders: [provider],
        externalData: weights,
        logSeverityLevel: 3,
      });
    }),
    writesOutputs: false,
    tensor: (type, data, dims) => new ort.Tensor(type, data, dims),
  };
}

function threadsFor(asked: number | undefined): number {
  const isolated = globalThis.crossOriginIsolated === true;
  if (asked === undefined) {
    const cores = globalThis.navigator?.hardwareConcurrency ?? 1;
    return isolated ? Math.max(1, Math.min(MAX_THREADS, Math.floor(cores / 2))) : 1;
  }
  if (!(Number.isInteger(asked) && asked >= 1)) throw new UsageError(`threads is ${asked}; give a whole number from 1`);
  if (asked > 1 && !isolated) throw new NoThreadsError(asked);
  return asked;
}

// The part of WebGPU's interface that is used; TypeScript's own library has none of it.
interface Gpu {
  requestAdapter(): Promise<{
    readonly info?: Readonly<Record<"vendor" | "architecture" | "device" | "description", string>>;
  } | null>;
}

async function gpuName(): Promise<string> {
  const { gpu } = globalThis.navigator as Navigator & { gpu?: Gpu };
  if (gpu === undefined) throw new NoWebGpuError("this browser has none");
  const adapter = await gpu.requestAdapter();
  if (adapter === null) throw new NoWebGpuError("it finds no adapter");
  const { vendor = "", architecture = "", device = "", description = "" } = adapter.info ?? {};
  return [vendor, architecture, device, description, navigator.userAgent].join(" ");
}

// A module with two vector instructions, which an engine without them refuses.
const SIMD = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);

// A graph whose output y is its input x, one float32: onnx.helper made it (IR version 8, opset 17).
const NOTHING = new Uint8Array([
  8, 8, 58, 55, 10, 16, 10, 1, 120, 18, 1, 121, 34, 8, 73, 100, 101, 110, 116, 105, 116, 121, 18, 1, 110, 90, 15, 10, 1,
  120, 18, 10, 10, 8, 8, 1, 18, 4, 10, 2, 8, 1, 98, 15, 10, 1, 121, 18, 10, 10, 8, 8, 1, 18, 4, 10, 2, 8, 1, 66, 4, 10,
  0, 16, 17,
]);
