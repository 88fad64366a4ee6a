// What runs graphs and keeps files: Node.js, a browser. `@edgespec/edgespec/node` and `@edgespec/edgespec/web` each make a
// Host and a Folder; everything else is shared.

import type { Tensor } from "onnxruntime-common";
import type { FileRecord, RowInvariance } from "./pair/records.js";

/** How a folder is opened; the caller's, passed on by `load`. */
export interface Watch {
  /** Told of bytes that were read or downloaded, of all files together. */
  readonly onProgress?: (progress: Progress) => void;
  /** Aborts: `AbortedError`. What was downloaded whole stays. */
  readonly signal?: AbortSignal;
}

/** Bytes of all files that are being opened, and the file that is being read now. */
export interface Progress {
  readonly file: string;
  readonly loaded: number;
  readonly total: number;
}

/** An exported folder, wherever it lies. */
export interface Folder {
  /** Its path or URL, for messages. */
  readonly name: string;

  /**
   * The content of a small file: the manifest, a tokenizer, a table.
   *
   * @throws FileMissingError: it is not there. OfflineError: it cannot be reached.
   */
  read(file: string, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;

  /**
   * Makes sure that these files are here, and whole, before sessions are opened: compares sizes, and
   * digests of graphs and of everything that is downloaded.
   *
   * @param files path relative to the folder to record; checked not to leave the folder.
   * @throws FileMissingError, FileChangedError, OfflineError, QuotaError, AbortedError.
   */
  prepare(files: ReadonlyMap<string, FileRecord>, watch: Watch): Promise<void>;

  /**
   * Reads graphs of a folder and the weights that they share, once for all of them.
   *
   * @param graphs their files.
   * @param weights the files that hold their external data, in the graphs' own folder; a graph names
   *   them by their last part. Empty where there is none.
   * @returns for each graph what opens it; it throws RuntimeError, OutOfMemoryError.
   */
  readGraphs(graphs: readonly string[], weights: readonly string[]): Promise<readonly ReadGraph[]>;
}

/** Opens a graph that was read. */
export type ReadGraph = () => Promise<Session>;

/** An opened graph; onnxruntime's `InferenceSession` is one. */
export interface Session {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];

  /**
   * @param fetches the outputs that are wanted: null, or the tensor to write the output into, which
   *   hosts with `writesOutputs` do.
   */
  run(
    feeds: Readonly<Record<string, Tensor>>,
    fetches: Readonly<Record<string, Tensor | null>>,
  ): Promise<Readonly<Record<string, Tensor>>>;

  release(): Promise<void>;
}

/** Types of the tensors that edgespec makes; float16 numbers are passed as their 16 bits. */
export type TensorData = Float32Array | Uint16Array | Int8Array | BigInt64Array;
export type TensorType = "float32" | "float16" | "int8" | "int64";

/**
 * Where and by what graphs are run.
 *
 * The first five fields, together with the graph's digest, are the key that a measurement of row
 * invariance is kept under: whatever decides which kernels run must be in one of them.
 */
export interface Host {
  /** The runtime with its version and settings that change bits, such as "onnxruntime-web 1.30.0". */
  readonly runtime: string;
  /** The execution provider: "cpu", "wasm", "webgpu". */
  readonly provider: string;
  /** Threads of a session; 0: the runtime's own choice for this number of `cores`. */
  readonly threads: number;
  /** Cores of the processor where `threads` is 0, else 0. */
  readonly cores: number;
  /** The processor, or the GPU with its driver. Empty where bits do not depend on it (wasm). */
  readonly hardware: string;

  /**
   * Whether a call writes an output into the tensor that it is given for it. onnxruntime-web says
   * nothing and does not, which would leave the cache empty: there outputs are fed back as inputs.
   */
  readonly writesOutputs: boolean;

  readonly invariance: InvarianceStore;

  tensor(type: TensorType, data: TensorData, dims: readonly number[]): Tensor;
}

/** Keeps measurements of row invariance. What it cannot keep is measured again the next time. */
export interface InvarianceStore {
  /** The result for a graph, by its digest, and a machine, by the digest of its record. */
  read(graph: string, machine: string): Promise<RowInvariance | null>;
  /** A result that came with the pair, for the same record of a machine; the host still checks its logits. */
  shipped(graph: string, machine: string): Promise<RowInvariance | null>;
  write(graph: string, result: RowInvariance): Promise<void>;
}
