// The manifest of an exported folder, as docs/reference/folder-format.md describes it.

import { DamagedError, FileMissingError, FolderVersionError, NotAPairError, shortened, UsageError } from "../errors.js";
import type { Folder } from "../host.js";
import type { FileRecord, RowInvariance } from "./records.js";
import { canonicalJson } from "./canonical-json.js";
import { sha256Hex } from "./digest.js";

export const FORMAT_VERSION = 5;
export const MANIFEST = "edgespec.json";
export const TOKENIZER = "tokenizer.json";
export const ROW_INVARIANCE = "row_invariance.json";
/** Row invariance is measured for calls of up to this many positions: γ = 16 and the bonus token. */
export const MAX_ROWS = 17;

export type CacheFormat = "fp32" | "fp16" | "int8";

/** One set of graphs of a model: one number format for its weights and one for its cache. */
export interface Variant {
  /** Graph name ("decoder", "encoder", "feature_fusion") to file. */
  readonly graphs: Readonly<Record<string, string>>;
  /** For people; what follows from it is in `row_cost`. */
  readonly weights_format: string;
  /** What one more position costs without kernels, in plain steps. */
  readonly row_cost: { readonly marginal: number };
  readonly cache_format: CacheFormat;
  readonly row_invariance: RowInvariance | null;
}

/** A target or a draft: what a runtime must know to run its graphs. */
export interface Exported {
  readonly family: string;
  readonly source: string;
  readonly vocab_size: number;
  readonly layers: number;
  readonly kv_heads: number;
  readonly head_size: number;
  readonly capacity: number;
  readonly positions: number | null;
  readonly start_token: number | null;
  readonly variants: Readonly<Record<string, Variant>>;
  readonly vocabulary?: string | null;
  readonly features?: number;
  /** Tokens that a draft reads, where they are more than those that it may propose. */
  readonly input_vocab_size?: number | null;
  /** The shape of each layer of the cache, where they differ. */
  readonly layer_shapes?: readonly LayerShape[];
  /** What each recurrent layer keeps. */
  readonly states?: readonly StateShape[];
}

/** Numbers of a recurrent layer's state, and of what it keeps of a position. */
export interface StateShape {
  readonly state: number;
  readonly row: number;
}

/** The shape of a layer of the cache. */
export interface LayerShape {
  readonly kv_heads: number;
  readonly head_size: number;
}

/** What a chat template writes between the messages of a conversation. */
export interface ChatFormat {
  readonly before: string;
  readonly after: string;
  readonly before_answer?: string | null;
  readonly between?: string | null;
  readonly system?: string | null;
  readonly after_system?: string | null;
  readonly trims?: readonly string[];
  readonly hides?: string;
  readonly hides_newlines?: boolean;
  /** Roles and kinds of texts ("system:empty") that the template writes in its own way. */
  readonly odd?: readonly string[];
  /** Fields of messages that the template reads, besides role and content. */
  readonly reads?: readonly string[];
  /** An answer that is last, and is continued, is written as an earlier one. */
  readonly continues?: boolean;
  /** Values that the template reads by name, besides messages and tools. */
  readonly options?: readonly TemplateOption[];
}

/** A value that a chat template reads by name, such as `enable_thinking`. */
export interface TemplateOption {
  readonly name: string;
  /** By the JSON text of a value ("false"), the format with it. Others only the template itself knows. */
  readonly formats: Readonly<Record<string, ChatFormat>>;
}

/** The target's own settings for generating text; null where it names none. */
export interface GenerationDefaults {
  readonly temperature: number | null;
  readonly top_k: number | null;
  readonly top_p: number | null;
  readonly min_p: number | null;
  readonly xtc_probability: number | null;
  readonly xtc_threshold: number | null;
  readonly max_new_tokens: number | null;
  readonly repetition_penalty: number | null;
  readonly min_tokens: number | null;
  readonly logit_bias: Readonly<Record<string, number>>;
  readonly stop: readonly string[];
}

/** The languages of a translation model that is told them by tokens. */
export interface Languages {
  readonly tokens: Readonly<Record<string, number>>;
  readonly source: string;
  readonly source_is_last: boolean;
  readonly target: string | null;
  readonly target_is_start: boolean;
}

/** Everything in an exported folder. */
export interface Manifest {
  readonly version: number;
  readonly created_by: string;
  readonly eos_token_ids: readonly number[];
  readonly chat: ChatFormat | null;
  readonly generation: GenerationDefaults;
  readonly languages?: Languages | null;
  readonly host?: string | null;
  readonly target: Exported;
  readonly draft: Exported | null;
  readonly files: Readonly<Record<string, FileRecord>>;
  readonly digest: string;
}

/**
 * Reads the manifest and checks it; of the files it names, only their paths.
 *
 * @throws NotAPairError, FolderVersionError, DamagedError: it was changed, or names a path that leaves
 *   the folder.
 */
export async function readManifest(folder: Pick<Folder, "name" | "read">, signal?: AbortSignal): Promise<Manifest> {
  const file = `${folder.name}/${MANIFEST}`;
  const text = new TextDecoder().decode(await manifestBytes(folder, signal));
  const data = parsed(text, file);
  if (data.version !== FORMAT_VERSION) throw new FolderVersionError(folder.name, data.version, FORMAT_VERSION);
  if (data.digest !== (await sha256Hex(canonicalJson(text, ["digest"])))) {
    throw new DamagedError(file, "it was changed after export");
  }
  const manifest = data as unknown as Manifest; // its digest says that it is as edgespec wrote it
  for (const name of Object.keys(manifest.files)) {
    if (leavesFolder(name)) throw new DamagedError(file, `it names ${shortened(name)}, which leaves the folder`);
  }
  return manifest;
}

async function manifestBytes(folder: Pick<Folder, "name" | "read">, signal?: AbortSignal): Promise<Uint8Array> {
  try {
    return await folder.read(MANIFEST, signal);
  } catch (error) {
    throw error instanceof FileMissingError ? new NotAPairError(folder.name, error) : error;
  }
}

function parsed(text: string, file: string): Record<string, unknown> {
  try {
    const data: unknown = JSON.parse(text);
    if (typeof data === "object" && data !== null && !Array.isArray(data)) return data as Record<string, unknown>;
  } catch (error) {
    throw new DamagedError(file, "it is no JSON", error);
  }
  throw new DamagedError(file, "it is no JSON object");
}

function leavesFolder(name: string): boolean {
  return name.startsWith("/") || /[\\:]/.test(name) || name.split("/").includes("..");
}

/** The name of the variant that was asked for, or of the first. @throws UsageError: there is none such. */
export function variantName(exported: Exported, asked: string | undefined, role: "target" | "draft"): string {
  const names = Object.keys(exported.variants);
  const name = asked ?? names[0]!;
  if (names.includes(name)) return name;
  throw new UsageError(`the ${role} was not exported as ${shortened(name)}; there is: ${names.join(", ")}`);
}

/** The graphs of a variant and the files with their weights, which lie in the graphs' folders. */
export function variantFiles(manifest: Manifest, variant: Variant): { graphs: string[]; weights: string[] } {
  const graphs = [...new Set(Object.values(variant.graphs))];
  const weights = new Set(graphs.flatMap((graph) => weightsOf(manifest, graph)));
  return { graphs, weights: [...weights] };
}

/** The files with external data in the folder of a graph. */
function weightsOf(manifest: Manifest, graph: string): string[] {
  const folder = graph.slice(0, graph.lastIndexOf("/") + 1);
  return Object.keys(manifest.files).filter(
    (file) => file.startsWith(folder) && /^[^/]*\.data[^/]*$/.test(file.slice(folder.length)),
  );
}

/** The records of files that the manifest names. @throws DamagedError: it does not record one. */
export function recordsOf(folder: Folder, manifest: Manifest, files: Iterable<string>): Map<string, FileRecord> {
  return new Map(
    Array.from(files, (file) => {
      const record = manifest.files[file];
      if (record === undefined)
        throw new DamagedError(`${folder.name}/${MANIFEST}`, `it does not record ${shortened(file)}`);
      return [file, record];
    }),
  );
}
