// ONNX Runtime's C interface, called from JavaScript through koffi.
//
// onnxruntime-node copies every output of a call into a new array, the whole cache among them, even those
// that were written in place. Its library is called directly where koffi is installed: then the cache stays where it is.

import { existsSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { arch, platform } from "node:process";
import type { LibraryHandle } from "koffi";

/** An address in the process's memory. */
export type Address = bigint;
/** A failure; null is success. */
type Status = Address | null;
type Native<Result> = (...given: readonly unknown[]) => Result;

const API_VERSION = 21; // of the table; newer runtimes have all older ones
const POINTER_BYTES = 8;
const WARNINGS_OFF = 4; // fatal errors only: every failure is raised
const CPU_ALLOCATOR = [1, 0] as const; // an arena's, default memory

// Places in the table `OrtApi` of onnxruntime_c_api.h, which only ever grows at its end.
const PLACES = {
  errorMessage: 2,
  createEnv: 3,
  createSession: 7,
  run: 9,
  createSessionOptions: 10,
  setLogSeverity: 22,
  setThreads: 24,
  inputCount: 30,
  outputCount: 31,
  inputName: 36,
  outputName: 37,
  createTensor: 49,
  tensorData: 51,
  elementType: 60,
  rank: 61,
  dimensions: 62,
  typeAndShape: 65,
  createMemoryInfo: 69,
  free: 76,
  allocator: 78,
  releaseStatus: 93,
  releaseSession: 95,
  releaseValue: 96,
  releaseTypeAndShape: 99,
  releaseSessionOptions: 100,
  addConfigEntry: 130,
} as const;

/** The part of koffi that is used. */
export type Koffi = typeof import("koffi");

/** A tensor in memory that belongs to its caller, or to the runtime. */
export interface NativeTensor {
  readonly type: number;
  readonly dims: readonly number[];
  readonly data: Address;
}

/** The functions of ONNX Runtime that sessions need. Each throws an Error with the runtime's own message. */
export class OrtApi {
  readonly #koffi: Koffi;
  readonly #library: LibraryHandle; // kept: koffi unloads a library whose handle is collected
  readonly #found = new Map<keyof typeof PLACES, Native<unknown>>();
  readonly #table: Address;
  readonly #env: Address;
  readonly #memory: Address;
  readonly #allocator: Address;
  readonly #errorMessage;
  readonly #releaseStatus;
  readonly #createTensor;
  readonly #tensorData;
  readonly #run;

  /** @param library file of onnxruntime's shared library. */
  constructor(koffi: Koffi, library: string) {
    this.#koffi = koffi;
    this.#library = koffi.load(library);
    const base = this.#library.func("OrtGetApiBase", "void *", [])() as Address;
    const table = this.#function<Address | null>(base, 0, ["uint32_t"], "void *")(API_VERSION);
    if (table === null) throw new Error(`${library} has no C interface of version ${API_VERSION}`);
    this.#table = table;
    this.#errorMessage = this.#at<string>("errorMessage", ["void *"], "const char *");
    this.#releaseStatus = this.#at<void>("releaseStatus", ["void *"], "void");
    this.#createTensor = this.#at<Status>("createTensor", [
      "void *",
      "void *",
      "size_t",
      "void *",
      "size_t",
      "int",
      "void *",
    ]);
    this.#tensorData = this.#at<Status>("tensorData", ["void *", "void *"]);
    this.#run = this.#at<Status>("run", [
      "void *",
      "void *",
      "void *",
      "void *",
      "size_t",
      "void *",
      "size_t",
      "void *",
    ]);
    this.#env = this.#made(this.#at("createEnv", ["int", "str", "void *"]), WARNINGS_OFF, "edgespec");
    this.#memory = this.#made(this.#at("createMemoryInfo", ["int", "int", "void *"]), ...CPU_ALLOCATOR);
    this.#allocator = this.#made(this.#at("allocator", ["void *"]));
  }

  /** @param entries of the session's configuration, as named in onnxruntime_session_options_config_keys.h. */
  createSession(graph: string, threads: number, entries: Readonly<Record<string, string>>): Address {
    const options = this.#made(this.#at("createSessionOptions", ["void *"]));
    try {
      this.#check(this.#at<Status>("setLogSeverity", ["void *", "int"])(options, WARNINGS_OFF));
      this.#check(this.#at<Status>("setThreads", ["void *", "int"])(options, threads));
      const add = this.#at<Status>("addConfigEntry", ["void *", "str", "str"]);
      for (const [key, value] of Object.entries(entries)) this.#check(add(options, key, value));
      const path = platform === "win32" ? "str16" : "str";
      return this.#made(this.#at("createSession", ["void *", path, "void *", "void *"]), this.#env, graph, options);
    } finally {
      this.#at<void>("releaseSessionOptions", ["void *"], "void")(options);
    }
  }

  releaseSession(session: Address): void {
    this.#at<void>("releaseSession", ["void *"], "void")(session);
  }

  inputNames(session: Address): string[] {
    return this.#names(session, "inputCount", "inputName");
  }

  outputNames(session: Address): string[] {
    return this.#names(session, "outputCount", "outputName");
  }

  /** A tensor over memory that is not copied and must outlive it. */
  createTensor(data: ArrayBufferView, dims: readonly number[], type: number): Address {
    return this.#made(
      this.#createTensor,
      this.#memory,
      this.#koffi.address(data),
      data.byteLength,
      BigInt64Array.from(dims, BigInt),
      dims.length,
      type,
    );
  }

  releaseValue(value: Address): void {
    this.#at<void>("releaseValue", ["void *"], "void")(value);
  }

  /** What a tensor holds, and where. */
  tensor(value: Address): NativeTensor {
    const info = this.#made(this.#at("typeAndShape", ["void *", "void *"]), value);
    try {
      const type = new Int32Array(1);
      this.#check(this.#at<Status>("elementType", ["void *", "void *"])(info, type));
      const rank = Number(this.#made(this.#at("rank", ["void *", "void *"]), info));
      const dims = new BigInt64Array(rank);
      this.#check(this.#at<Status>("dimensions", ["void *", "void *", "size_t"])(info, dims, rank));
      return { type: type[0]!, dims: Array.from(dims, Number), data: this.#made(this.#tensorData, value) };
    } finally {
      this.#at<void>("releaseTypeAndShape", ["void *"], "void")(info);
    }
  }

  /** A copy of memory. */
  bytes(address: Address, count: number): Uint8Array<ArrayBuffer> {
    return this.#koffi.decode(address, "uint8_t", count) as Uint8Array<ArrayBuffer>;
  }

  /** The address of a text that ends with a zero byte, and what keeps it there. */
  cString(text: string): readonly [Address, Uint8Array] {
    const content = new TextEncoder().encode(`${text}\0`);
    return [this.#koffi.address(content), content];
  }

  /**
   * Runs a session. Names and tensors are given by their addresses.
   *
   * @param outputs tensors to write into, or 0, which the runtime replaces by a tensor of its own.
   */
  run(
    session: Address,
    inputNames: BigUint64Array,
    inputs: BigUint64Array,
    outputNames: BigUint64Array,
    outputs: BigUint64Array,
  ): void {
    this.#check(this.#run(session, null, inputNames, inputs, inputs.length, outputNames, outputs.length, outputs));
  }

  #names(session: Address, count: "inputCount" | "outputCount", name: "inputName" | "outputName"): string[] {
    const total = Number(this.#made(this.#at(count, ["void *", "void *"]), session));
    const nameOf = this.#at<Status>(name, ["void *", "size_t", "void *", "void *"]);
    const free = this.#at<Status>("free", ["void *", "void *"]);
    return Array.from({ length: total }, (_, index) => {
      const address = this.#made(nameOf, session, index, this.#allocator);
      const text = this.#koffi.decode.string(address);
      this.#check(free(this.#allocator, address));
      return text;
    });
  }

  /** What a function writes to the address that is its last argument. */
  #made(create: Native<Status>, ...given: readonly unknown[]): Address {
    const made = new BigUint64Array(1);
    this.#check(create(...given, made));
    return made[0]!;
  }

  #check(status: Status): void {
    if (status === null) return;
    const message = this.#errorMessage(status);
    this.#releaseStatus(status);
    throw new Error(message);
  }

  #at<Result = Status>(name: keyof typeof PLACES, parameters: string[], result = "void *"): Native<Result> {
    const found = this.#found.get(name) ?? this.#function(this.#table, PLACES[name], parameters, result);
    this.#found.set(name, found);
    return found as Native<Result>;
  }

  #function<Result>(table: Address, place: number, parameters: string[], result: string): Native<Result> {
    const address = this.#koffi.decode(table, place * POINTER_BYTES, "void *");
    return this.#koffi.decode(address, this.#koffi.proto(result, parameters)) as Native<Result>;
  }
}

/** The shared library in onnxruntime-node's folder; null where this version keeps it elsewhere. */
export function runtimeLibrary(): string | null {
  const package_ = createRequire(import.meta.url).resolve("onnxruntime-node/package.json");
  const binaries = join(dirname(package_), "bin");
  for (const version of existsSync(binaries) ? readdirSync(binaries) : []) {
    const folder = join(binaries, version, platform, arch);
    const file =
      existsSync(folder) &&
      readdirSync(folder).find((name) =>
        /^(libonnxruntime\.so\.1|libonnxruntime\.1\.dylib|onnxruntime\.dll)$/.test(name),
      );
    if (file) return join(folder, file);
  }
  return null;
}
