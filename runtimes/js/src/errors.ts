// An error class for each kind of failure. A message is one sentence: value, limit, way out.

/** Every error of this package is one of these. */
export class EdgespecError extends Error {
  override readonly name: string = "EdgespecError";

  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
  }
}

/** An argument is out of its range. */
export class UsageError extends EdgespecError {
  override readonly name: string = "UsageError";
}

/** The prompt does not fit the cache. */
export class PromptTooLongError extends UsageError {
  override readonly name: string = "PromptTooLongError";

  constructor(
    readonly tokens: number,
    readonly capacity: number,
  ) {
    super(
      `the prompt has ${tokens} tokens and the cache holds ${capacity}; shorten the prompt or load the pair with more capacity`,
    );
  }
}

/** A second text was begun while one is being generated: the caches hold one. */
export class BusyError extends UsageError {
  override readonly name: string = "BusyError";

  constructor() {
    super(
      "this pair is generating another text, and makes one at a time; finish or close that stream first, or load the pair twice",
    );
  }
}

/** The pair was disposed of. */
export class DisposedError extends UsageError {
  override readonly name: string = "DisposedError";

  constructor() {
    super("this pair was disposed of; load it again");
  }
}

/** A signal aborted the loading or the generation. Its name is that of the platform's own error. */
export class AbortedError extends EdgespecError {
  override readonly name: string = "AbortError";

  constructor(signal?: AbortSignal) {
    super("it was aborted by its signal; begin again when you want it", signal?.reason);
  }
}

/** The folder is not a pair. */
export class NotAPairError extends EdgespecError {
  override readonly name: string = "NotAPairError";

  constructor(folder: string, cause?: unknown) {
    super(
      `${folder} has no edgespec.json, so it is not an exported pair; make one with: edgespec export TARGET DRAFT -o DIR`,
      cause,
    );
  }
}

/** The folder has another version of the format. */
export class FolderVersionError extends EdgespecError {
  override readonly name: string = "FolderVersionError";

  constructor(
    readonly folder: string,
    readonly version: unknown,
    readonly reads: number,
  ) {
    const wayOut = typeof version === "number" && version > reads ? "update edgespec" : "export the pair again";
    super(`${folder} has format version ${shortened(version)} and this edgespec reads ${reads}; ${wayOut}`);
  }
}

/** The pair hears speech, which only Python runs. */
export class SpeechPairError extends EdgespecError {
  override readonly name: string = "SpeechPairError";

  constructor(folder: string) {
    super(
      `${folder} is a speech model (whisper), which JavaScript does not run; use Python: edgespec transcribe PAIR FILE`,
    );
  }
}

/** A model of the pair has recurrent layers, whose states no browser keeps yet. */
export class RecurrentPairError extends EdgespecError {
  override readonly name: string = "RecurrentPairError";

  constructor(folder: string, family: string) {
    super(
      `${folder} has a model with recurrent layers (${shortened(family)}), which browsers do not run; use Node.js or Python`,
    );
  }
}

/** The manifest, or a table, is damaged or was changed. */
export class DamagedError extends EdgespecError {
  override readonly name: string = "DamagedError";

  constructor(file: string, what: string, cause?: unknown) {
    super(`${file} is damaged (${what}); export or copy the pair again`, cause);
  }
}

/** A file that the manifest names is not there. */
export class FileMissingError extends EdgespecError {
  override readonly name: string = "FileMissingError";

  constructor(
    readonly file: string,
    cause?: unknown,
  ) {
    super(`${file} is missing; export or copy the pair again`, cause);
  }
}

/** A file is not the one that was exported. */
export class FileChangedError extends EdgespecError {
  override readonly name: string = "FileChangedError";

  constructor(
    readonly file: string,
    what: string,
  ) {
    super(`${file} is not the file that was exported (${what}); copy or export it again`);
  }
}

/** A file cannot be reached: no network, or the server refuses. */
export class OfflineError extends EdgespecError {
  override readonly name: string = "OfflineError";

  constructor(
    readonly url: string,
    what: string,
    cause?: unknown,
  ) {
    super(
      `${url} cannot be reached (${what}); check the network and load again, what was downloaded whole is kept`,
      cause,
    );
  }
}

/** The browser gives this site no more room to keep files. */
export class QuotaError extends EdgespecError {
  override readonly name: string = "QuotaError";

  constructor(
    readonly bytes: number,
    readonly available: number,
    cause?: unknown,
  ) {
    super(
      `the pair takes ${megabytes(bytes)} and this site may keep ${megabytes(available)} more${cause ? ` (${firstLine(cause)})` : ""}; free room or take a smaller format`,
      cause,
    );
  }
}

/** There is no memory for the weights or the cache. */
export class OutOfMemoryError extends EdgespecError {
  override readonly name: string = "OutOfMemoryError";

  constructor(what: string, cause?: unknown) {
    super(`there is no memory for ${what}; close other programs, take a smaller format or give less capacity`, cause);
  }
}

/** The page came by plain HTTP, where browsers compute no digests and keep no files. */
export class InsecureContextError extends EdgespecError {
  override readonly name: string = "InsecureContextError";

  constructor() {
    super("this page is no secure context, so files cannot be checked; serve it by HTTPS or from localhost");
  }
}

/** The engine's WebAssembly has no SIMD instructions. */
export class NoSimdError extends EdgespecError {
  override readonly name: string = "NoSimdError";

  constructor() {
    super("this browser's WebAssembly has no SIMD, which the runtime needs; update the browser");
  }
}

/** Several threads were asked for where WebAssembly may not share memory. */
export class NoThreadsError extends EdgespecError {
  override readonly name: string = "NoThreadsError";

  constructor(readonly threads: number) {
    super(
      `${threads} threads were asked for and this page is not cross-origin isolated; serve it with COOP same-origin and COEP require-corp, or ask for 1`,
    );
  }
}

/** WebGPU was asked for and is not there. */
export class NoWebGpuError extends EdgespecError {
  override readonly name: string = "NoWebGpuError";

  constructor(what: string, cause?: unknown) {
    super(`WebGPU was asked for and is not available (${what}); take the provider wasm`, cause);
  }
}

/** The runtime failed: to open a graph, or to run it. */
export class RuntimeError extends EdgespecError {
  override readonly name: string = "RuntimeError";

  constructor(what: string, cause?: unknown) {
    super(
      `${what} failed in the runtime (${firstLine(cause)}); check that it is onnxruntime 1.25 or newer, or take another format`,
      cause,
    );
  }
}

/** The model's own numbers are unusable, or a model was asked for what it cannot do. */
export class ModelError extends EdgespecError {
  override readonly name: string = "ModelError";
}

/** A caller's own drafter broke the protocol of `Drafter`. */
export class DrafterError extends EdgespecError {
  override readonly name: string = "DrafterError";

  /** @param drafter the name of its class. */
  constructor(drafter: string, what: string, wayOut: string, cause?: unknown) {
    super(`the drafter ${drafter} ${what}; ${wayOut}`, cause);
  }
}

/** A call left the cache as it was: the runtime does not write outputs where it was told to. */
export class CacheNotWrittenError extends EdgespecError {
  override readonly name: string = "CacheNotWrittenError";

  constructor(runtime: string) {
    super(
      `${runtime} did not write the cache, so every text would be wrong; take the version of the runtime that edgespec's package names`,
    );
  }
}

/** Speculation was asked for on a target that is not row-invariant here. */
export class NotRowInvariantError extends EdgespecError {
  override readonly name: string = "NotRowInvariantError";

  constructor() {
    super(
      "this target is not row-invariant here, so speculation might change its text; decode with draft: false, export another format, or load it with allowInexact: true",
    );
  }
}

/** An error of a runtime as one of this package; others of this package stay as they are. */
export function asRuntimeError(what: string, error: unknown): EdgespecError {
  if (error instanceof EdgespecError) return error;
  const message = error instanceof Error ? error.message : String(error);
  if (/out of memory|bad_alloc|allocation failed|array buffer allocation/i.test(message))
    return new OutOfMemoryError(what, error);
  return new RuntimeError(what, error);
}

/** A value in a message, cut where it is long. */
export function shortened(value: unknown): string {
  const text =
    typeof value === "string"
      ? JSON.stringify(value)
      : typeof value === "object"
        ? (JSON.stringify(value) ?? String(value))
        : String(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6)} MB`;
}

function firstLine(cause: unknown): string {
  const text = cause instanceof Error ? cause.message : String(cause);
  return text.split("\n", 1)[0]!;
}
