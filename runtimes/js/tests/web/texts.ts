// What is asked of a browser, and what Python's texts are.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Provider } from "../../src/web/index.js";
import { PAIRS } from "./site.js";

/** A prompt and its greedy text. */
export interface Case {
  readonly prompt: string;
  readonly tokenIds: readonly number[];
  readonly text: string;
}

export interface TextsTask {
  /** Folder below `PAIRS`. */
  readonly pair: string;
  readonly prompts: readonly string[];
  readonly chat: boolean;
  readonly maxNewTokens: number;
  readonly threads: number;
  readonly provider: Provider;
  /** Caches stay in WebAssembly's memory. */
  readonly inPlace: boolean;
  /** Draft without measuring row invariance first. */
  readonly allowInexact: boolean;
}

/** Python's greedy texts of a pair, as scripts/web/expected_texts.py writes them. */
export interface Expected {
  readonly chat: boolean;
  readonly maxNewTokens: number;
  readonly cases: readonly Case[];
}

const FILE = join(PAIRS, "expected.json");

/** Null where `make test-web` has not exported the pairs. */
export const EXPECTED: Readonly<Record<string, Expected>> | null = existsSync(FILE)
  ? JSON.parse(readFileSync(FILE, "utf8"))
  : null;

/** Of each chat model's questions: all 50 take a browser minutes. */
export const QUESTIONS = Number(process.env.EDGESPEC_WEB_QUESTIONS ?? 3);

/** EDGESPEC_DEEP=1 also watches the memory of many texts. */
export const DEEP = process.env.EDGESPEC_DEEP === "1";

export function taskFor(
  pair: string,
  { count = Infinity, threads = 1, provider = "wasm" as Provider, inPlace = false } = {},
): TextsTask {
  const { chat, maxNewTokens, cases } = EXPECTED![pair]!;
  const allowInexact = provider === "webgpu";
  return {
    pair,
    chat,
    maxNewTokens,
    threads,
    provider,
    inPlace,
    allowInexact,
    prompts: cases.slice(0, count).map(({ prompt }) => prompt),
  };
}
