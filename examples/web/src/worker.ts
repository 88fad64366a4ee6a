// Everything that computes. Messages are answered one after the other; "stop" at once.

import { forget, isKept, load } from "@edgespec/edgespec/web";
import { PlainSpeed } from "./plain-speed.js";
import type { Ending, Figures, FromWorker, Prompt, ToWorker, Where } from "./messages.js";

type Pair = Awaited<ReturnType<typeof load>>;
type Stream = ReturnType<Pair["stream"]>;

/** A text waits after so many tokens, and goes on when it is told to. */
const BUDGET = 256;
const WASM = new URL("ort/", self.location.href).href;

let pair: Pair | null = null;
/** The text that is written, or waits; a pair makes one at a time. */
let writing: { readonly stream: Stream; budget: number } | null = null;
let stopping = new AbortController();
let working: Promise<void> = Promise.resolve();
const plainSpeed = new PlainSpeed();

self.onmessage = ({ data }: MessageEvent<ToWorker>): void => {
  if (data.type === "stop") {
    stopping.abort();
    return;
  }
  if (data.type !== "kept") plainSpeed.giveWay();
  enqueue(() => {
    stopping = new AbortController();
    return act(data);
  });
};

function enqueue(work: () => Promise<void>): void {
  working = working.then(work).catch(report);
}

function post(message: FromWorker): void {
  self.postMessage(message);
}

function report(error: unknown): void {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  post(name === "AbortError" ? { type: "aborted" } : { type: "failed", message });
}

function act(message: Exclude<ToWorker, { type: "stop" }>): Promise<void> {
  switch (message.type) {
    case "load":
      return open(message.where);
    case "answer":
      return answer(message.prompt);
    case "continue":
      return goOn();
    case "compare":
      return compare(message.prompt, message.tokenIds);
    case "kept":
      return postKept(message.urls);
    default:
      return forget(message.url);
  }
}

async function open(where: Where): Promise<void> {
  await close();
  await pair?.dispose();
  pair = null;
  const began = performance.now();
  pair = await load(where, {
    inPlace: true,
    wasmPaths: WASM,
    signal: stopping.signal,
    onProgress: ({ loaded, total }) => post({ type: "progress", loaded, total }),
  });
  const { manifest, speculates } = pair;
  post({
    type: "loaded",
    chats: manifest.chat !== null,
    encodes: manifest.target.start_token !== null,
    speculates,
    seconds: (performance.now() - began) / 1000,
  });
  measurePlainSpeed();
}

async function answer(prompt: Prompt): Promise<void> {
  await close();
  const stream = pair!.stream(prompt, { signal: stopping.signal });
  writing = { stream, budget: BUDGET };
  await write();
}

async function goOn(): Promise<void> {
  if (writing === null) return;
  writing.budget += BUDGET;
  await write();
}

/** Writes until the text ends, is stopped, or has as many tokens as it may have for now. */
async function write(): Promise<void> {
  const { stream, budget } = writing!;
  const { result } = stream;
  const { signal } = stopping;
  while (result.tokenIds.length < budget && !signal.aborted) {
    const { value, done } = await nextOf(stream);
    if (done) return ended(stream, result.finishReason ?? "stopped");
    post({ type: "chunk", text: value.text, drafted: value.drafted, figures: figuresOf(stream) });
    await turn();
  }
  if (!signal.aborted) return posted(stream, "waits");
  await close();
  ended(stream, "stopped");
}

/** A text that is stopped is at its end. */
async function nextOf(stream: Stream): ReturnType<Stream["next"]> {
  try {
    return await stream.next();
  } catch (error) {
    if (error instanceof Error && error.name === "AbortError") return { done: true, value: undefined };
    writing = null;
    throw error;
  }
}

function ended(stream: Stream, ending: Ending): void {
  writing = null;
  posted(stream, ending);
  measurePlainSpeed();
}

function posted(stream: Stream, ending: Ending): void {
  post({ type: "ended", ending, tokenIds: stream.result.tokenIds, figures: figuresOf(stream) });
}

/** Ends the text that waits, if one does. */
async function close(): Promise<void> {
  await writing?.stream.close();
  writing = null;
}

/** Writes the text again without a draft. */
async function compare(prompt: Prompt, tokenIds: readonly number[]): Promise<void> {
  await close();
  const stream = pair!.stream(prompt, { draft: false, maxNewTokens: tokenIds.length, signal: stopping.signal });
  for await (const _ of stream) {
    post({ type: "comparing", tokens: stream.result.tokenIds.length });
    await turn();
  }
  const plain = stream.result.tokenIds;
  const differsAt = tokenIds.findIndex((token, index) => token !== plain[index]);
  const { tokensPerSecond } = figuresOf(stream);
  post({ type: "compared", differsAt: differsAt < 0 ? null : differsAt, tokensPerSecond });
}

function measurePlainSpeed(): void {
  const measured = pair!;
  if (plainSpeed.isKnown(measured) || !measured.speculates) return;
  enqueue(async () => {
    if (pair !== measured || writing !== null) return;
    const tokensPerSecond = await plainSpeed.measure(measured, turn);
    if (tokensPerSecond !== null) post({ type: "plain", tokensPerSecond });
  });
}

async function postKept(urls: readonly string[]): Promise<void> {
  const kept = await Promise.all(urls.map((url) => isKept(url)));
  post({ type: "kept", urls: urls.filter((_, index) => kept[index]) });
}

/** Times are those of whole rounds, of which not all tokens may be written yet. */
function figuresOf({ result: { tokenIds, stats } }: Stream): Figures {
  const seconds = stats.seconds - stats.firstTokenSeconds;
  const tokens = stats.tokens - stats.firstTokens;
  return {
    tokens: tokenIds.length,
    tokensPerSecond: seconds > 0 && tokens > 0 ? tokens / seconds : null,
    drafted: stats.tokens > 0 ? stats.accepted / stats.tokens : 0,
  };
}

/** Lets a message in: calls of the model follow each other without a gap in which "stop" is heard. */
function turn(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
