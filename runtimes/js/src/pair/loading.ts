// Opens an exported pair: its models, their row invariance here, and their costs.

import { type Costs, estimatedCosts, type TargetSize } from "../core/cost-model.js";
import type { CommonTokens } from "../drafters/token-intersection.js";
import { SharedTokens, SomeTokens, type Vocabulary } from "../drafters/vocabulary-map.js";
import { AbortedError, DamagedError, RecurrentPairError, shortened, SpeechPairError, UsageError } from "../errors.js";
import type { Folder, Host } from "../host.js";
import { rowInvarianceHere } from "../invariance/invariance.js";
import { GraphModel, openSessions, type Sessions } from "./graph-model.js";
import {
  type Exported,
  type Manifest,
  MAX_ROWS,
  readManifest,
  recordsOf,
  TOKENIZER,
  type Variant,
  variantFiles,
  variantName,
} from "./manifest.js";
import type { RowInvariance } from "./records.js";
import type { LoadOptions } from "./options.js";
import { Pair, type PairParts } from "./pair.js";
import { RoundClock } from "./round-clock.js";
import { TextCodec } from "./tokenizer.js";

const SPEECH = "whisper"; // the family of speech models
const EAGLE = "eagle"; // the family of EAGLE heads
const SHARED_ENCODER = "shared_encoder"; // the family of drafts that read their target's encoder
// Families of drafts that only Python runs.
const PYTHON_ONLY: Readonly<Record<string, string>> = {
  block: "a block draft",
  gemma4_assistant: "an assistant that reads its target's cache",
};

/** What of a folder is opened. */
interface Choice {
  readonly manifest: Manifest;
  readonly target: string;
  readonly draft: string | null;
  readonly capacity: number;
}

/**
 * Opens a pair; adapters call it.
 *
 * @throws NotAPairError, FolderVersionError, SpeechPairError, RecurrentPairError, DamagedError, FileMissingError,
 *   FileChangedError: the folder is not whole, or not for JavaScript. UsageError: an option is out of range, or the
 *   folder for a device. RuntimeError, OutOfMemoryError: it cannot be run here. AbortedError: by its signal.
 */
export async function openPair(host: Host, folder: Folder, options: LoadOptions = {}): Promise<Pair> {
  const manifest = await readManifest(folder, options.signal);
  if (manifest.target.family === SPEECH) throw new SpeechPairError(folder.name);
  if (manifest.host && manifest.host !== "web") {
    throw new UsageError(`${folder.name} was exported with --for ${manifest.host}; export it without`);
  }
  for (const model of [manifest.target, manifest.draft]) {
    if (model?.states?.length && host.provider !== "cpu") throw new RecurrentPairError(folder.name, model.family);
  }
  const choice = chosen(manifest, options);
  await folder.prepare(recordsOf(folder, manifest, filesOf(choice)), options);
  const opened: Sessions[] = [];
  try {
    return new Pair(await partsOf(host, folder, choice, options, opened));
  } catch (error) {
    await Promise.all(opened.flatMap((sessions) => Object.values(sessions)).map((session) => session.release()));
    throw error;
  }
}

function chosen(manifest: Manifest, options: LoadOptions): Choice {
  const { target, draft } = manifest;
  const kind = draft && PYTHON_ONLY[draft.family];
  if (kind) {
    throw new UsageError(
      `the pair's draft is ${kind}, which JavaScript does not run; export it with another draft or without one`,
    );
  }
  return {
    manifest,
    target: variantName(target, options.targetFormat, "target"),
    draft: draft && variantName(draft, options.draftFormat, "draft"),
    capacity: checkedCapacity(
      options.capacity ?? Math.min(target.capacity, draft?.positions ?? target.capacity),
      target,
      draft,
    ),
  };
}

function checkedCapacity(capacity: number, ...models: readonly (Exported | null)[]): number {
  const limit = Math.min(...models.map((model) => model?.positions ?? Infinity));
  if (Number.isInteger(capacity) && capacity >= 1 && capacity <= limit) return capacity;
  throw new UsageError(
    `capacity is ${shortened(capacity)}; this pair takes ${limit === Infinity ? "1 or more" : `1 to ${limit}`}`,
  );
}

/** Every file of a folder that opening it with these options reads, but its manifest. */
export function filesToOpen(manifest: Manifest, options: LoadOptions = {}): Set<string> {
  return filesOf(chosen(manifest, options));
}

/** Every file of the folder that the choice needs. */
function filesOf({ manifest, target, draft }: Choice): Set<string> {
  const files = new Set([TOKENIZER]);
  if (manifest.draft?.vocabulary) files.add(manifest.draft.vocabulary);
  const variants = [manifest.target.variants[target], draft === null ? null : manifest.draft!.variants[draft]];
  for (const variant of variants) {
    if (!variant) continue;
    const { graphs, weights } = variantFiles(manifest, variant);
    for (const file of [...graphs, ...weights]) files.add(file);
  }
  return files;
}

/** @param opened is told the sessions, for the case that a later step fails. */
async function partsOf(
  host: Host,
  folder: Folder,
  choice: Choice,
  options: LoadOptions,
  opened: Sessions[],
): Promise<PairParts> {
  const { manifest } = choice;
  const variant = manifest.target.variants[choice.target]!;
  const open = async (variant: Variant): Promise<Sessions> => {
    const sessions = await openSessions(folder, manifest, variant);
    opened.push(sessions);
    return sessions;
  };
  // The draft first: it opens while the target's weights are still read, and a runtime that compiles its operators
  // when they are first used then has most of the target's.
  const [draftSessions, sessions, codec, vocabulary] = await allEnded([
    choice.draft === null ? null : open(manifest.draft!.variants[choice.draft]!),
    open(variant),
    folder.read(TOKENIZER, options.signal).then((content) => new TextCodec(content, `${folder.name}/${TOKENIZER}`)),
    openVocabulary(folder, manifest, options.signal),
  ]);
  checkSignal(options.signal);
  const graph = manifest.files[variant.graphs.decoder!]!.sha256;
  const measured = (capacity: number) => measuredModel(host, manifest.target, variant, sessions, capacity);
  const rowInvariance = options.allowInexact ? null : await rowInvarianceHere(host, graph, measured);
  checkSignal(options.signal);
  const target = targetModel(host, choice, variant, sessions, rowInvariance);
  const draft = draftSessions && (await draftModel(host, choice, draftSessions, target));
  const costs = costsOf(choice, variant, rowInvariance, options.costs);
  return {
    manifest,
    codec,
    vocabulary,
    target,
    draft,
    costs,
    clock: options.costs === undefined ? new RoundClock(costs, draft) : null,
    formats: { target: choice.target, draft: choice.draft },
    rowInvariance,
    allowInexact: options.allowInexact ?? false,
  };
}

function measuredModel(
  host: Host,
  target: Exported,
  variant: Variant,
  sessions: Sessions,
  capacity: number,
): GraphModel {
  const calls = { capacity: Math.min(capacity, target.positions ?? capacity), minRows: 1, maxRows: MAX_ROWS };
  return new GraphModel(host, target, variant, sessions, calls);
}

function targetModel(
  host: Host,
  choice: Choice,
  variant: Variant,
  sessions: Sessions,
  measured: RowInvariance | null,
): GraphModel {
  const { manifest, capacity } = choice;
  const [minRows, maxRows] = rowsOf(measured);
  const keepFeatures = manifest.draft?.family === EAGLE;
  return new GraphModel(host, manifest.target, variant, sessions, { capacity, minRows, maxRows, keepFeatures });
}

// Few pairs need the two modules that are imported here.
async function draftModel(
  host: Host,
  { manifest, draft, capacity }: Choice,
  sessions: Sessions,
  target: GraphModel,
): Promise<GraphModel> {
  const exported = manifest.draft!;
  const variant = exported.variants[draft!]!;
  const calls = { capacity, minRows: 1, maxRows: null };
  switch (exported.family) {
    case EAGLE: {
      const { EagleModel } = await import("./eagle-model.js");
      return new EagleModel(host, exported, variant, sessions, calls, target);
    }
    case SHARED_ENCODER: {
      const { SharedEncoderModel } = await import("./shared-encoder-model.js");
      return new SharedEncoderModel(host, exported, variant, sessions, calls, target);
    }
    default:
      return new GraphModel(host, exported, variant, sessions, calls);
  }
}

/** The fewest and the most positions of a call; the usual ones where nothing was measured. */
function rowsOf(measured: RowInvariance | null): [min: number, max: number] {
  return measured === null ? [2, MAX_ROWS] : [measured.min_rows, measured.max_rows];
}

async function openVocabulary(folder: Folder, { target, draft }: Manifest, signal?: AbortSignal): Promise<Vocabulary> {
  if (!draft?.vocabulary) return new SharedTokens(Math.min(target.vocab_size, draft?.vocab_size ?? Infinity));
  const content = new TextDecoder().decode(await folder.read(draft.vocabulary, signal));
  try {
    const maps = JSON.parse(content) as { outputs: number[]; inputs: number[] } | CommonTokens;
    if ("common" in maps) {
      const { TokenIntersection } = await import("../drafters/token-intersection.js"); // few pairs need it
      if (maps.spellings.length !== target.vocab_size) throw new RangeError("it is for another target");
      return new TokenIntersection(maps, draft.vocab_size);
    }
    const { outputs, inputs } = maps;
    if (outputs.length !== draft.vocab_size || inputs.length !== target.vocab_size)
      throw new RangeError("it is for other models");
    return new SomeTokens(outputs, inputs, draft.input_vocab_size);
  } catch (error) {
    throw new DamagedError(
      `${folder.name}/${draft.vocabulary}`,
      error instanceof Error ? error.message : String(error),
      error,
    );
  }
}

/** Costs of rounds with n-gram lookup and with the draft model: as given, or estimated from sizes. */
function costsOf(
  { manifest, draft }: Choice,
  variant: Variant,
  measured: RowInvariance | null,
  given?: Costs,
): PairParts["costs"] {
  const [minRows, maxRows] = rowsOf(measured);
  const longest = maxRows - 1;
  if (given !== undefined) return { lookup: given.upTo(longest).withDraft(0), model: given.upTo(longest) };
  const size: TargetSize = {
    bytes: bytesOf(manifest, variant),
    rowCost: variant.row_cost.marginal,
    minRows,
    longest,
  };
  const draftBytes = draft === null ? 0 : bytesOf(manifest, manifest.draft!.variants[draft]!);
  return { lookup: estimatedCosts(size, 0), model: estimatedCosts(size, draftBytes) };
}

function bytesOf(manifest: Manifest, variant: Variant): number {
  const { graphs, weights } = variantFiles(manifest, variant);
  return [...graphs, ...weights].reduce((bytes, file) => bytes + (manifest.files[file]?.bytes ?? 0), 0);
}

/** Like Promise.all, but nothing goes on any more when it fails. */
async function allEnded<T extends readonly unknown[] | []>(
  values: T,
): Promise<{ -readonly [Index in keyof T]: Awaited<T[Index]> }> {
  await Promise.allSettled(values);
  return Promise.all(values);
}

function checkSignal(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new AbortedError(signal);
}
