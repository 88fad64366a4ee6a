// The host for Node.js and Electron: onnxruntime-node, a folder on disk.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { arch, availableParallelism, cpus, version } from "node:os";
import type { Tensor } from "onnxruntime-common";
import { shortened, UsageError } from "../errors.js";
import type { Host, TensorData, TensorType, InvarianceStore } from "../host.js";
import { openPair } from "../pair/loading.js";
import type { LoadOptions } from "../pair/options.js";
import type { Pair } from "../pair/pair.js";
import { NodeFolder } from "./folder.js";
import { type NodeRuntime, startRuntime } from "./runtime.js";
import { InvarianceFile } from "./invariance-file.js";

const MAX_THREADS = Math.max(16, 4 * availableParallelism());
// With flash attention, ONNX Runtime gives a position other bits in other calls on ARM64
// (docs/decisions/0022-arm64.md). It reads the variable when a session is made.
const SWITCH = "ORT_GQA_DISABLE_FLASH_ATTENTION";

export interface NodeLoadOptions extends LoadOptions {
  /** Of each model; the runtime's own choice by default. */
  readonly threads?: number;
}

/**
 * Opens an exported pair.
 *
 * Where this machine has not run the target before, the target's row invariance is measured first, and
 * the result is written into the folder. Each call of a model blocks the event loop; an application with
 * a window loads the pair in a worker. With the package koffi installed, caches are not copied at each call.
 *
 * @param folder written by `edgespec export`.
 * @throws EdgespecError: one of src/errors.ts; see `openPair`.
 */
export async function load(folder: string, options: NodeLoadOptions = {}): Promise<Pair> {
  const threads = options.threads ?? 0;
  if (!(Number.isInteger(threads) && threads >= 0 && threads <= MAX_THREADS)) {
    throw new UsageError(`threads is ${shortened(threads)}; give a whole number from 1 to ${MAX_THREADS}`);
  }
  if (arch() === "arm64") process.env[SWITCH] ??= "1";
  const runtime = await startRuntime(threads);
  const host = new NodeHost(runtime, threads, new InvarianceFile(folder));
  return openPair(host, new NodeFolder(folder, runtime.open), options);
}

class NodeHost implements Host {
  readonly runtime = runtimeName();
  readonly provider = "cpu";
  readonly cores: number;
  readonly hardware = hardwareName();
  readonly writesOutputs = true;

  readonly #runtime: NodeRuntime;

  constructor(
    runtime: NodeRuntime,
    readonly threads: number,
    readonly invariance: InvarianceStore,
  ) {
    this.#runtime = runtime;
    this.cores = threads === 0 ? cpus().length : 0;
  }

  tensor(type: TensorType, data: TensorData, dims: readonly number[]): Tensor {
    return new this.#runtime.Tensor(type, data, dims);
  }
}

function runtimeName(): string {
  const { version } = createRequire(import.meta.url)("onnxruntime-node/package.json") as { version: string };
  const setting = process.env[SWITCH];
  return `onnxruntime-node ${version}${setting === undefined ? "" : ` ${SWITCH}=${setting}`}`;
}

/** Architecture and processor, with a digest of its instruction sets where the system tells them. */
function hardwareName(): string {
  const features = createHash("sha256").update(instructionSets()).digest("hex").slice(0, 8);
  return `${arch()} ${cpus()[0]?.model.trim() ?? "processor"} #${features}`;
}

function instructionSets(): string {
  try {
    const first = readFileSync("/proc/cpuinfo", "utf8").split("\n\n", 1)[0]!;
    return first
      .split("\n")
      .filter((line) => /^(flags|Features|stepping|CPU )/.test(line))
      .join("\n");
  } catch {
    return version(); // not Linux: the version of the system
  }
}
