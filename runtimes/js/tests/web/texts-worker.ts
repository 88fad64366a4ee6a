// Runs in a browser: texts of pairs, with and without draft, and the row invariance that was measured.

import type { RowInvariance } from "../../src/pair/records.js";
import { load } from "../../src/web/index.js";
import type { Case, TextsTask } from "./texts.js";

export interface FoundTexts {
  readonly threads: number;
  readonly isolated: boolean;
  readonly rowInvariance: RowInvariance | null;
  readonly plain: readonly Case[];
  readonly drafted: readonly Case[];
  /** Drafted tokens that the target accepted. */
  readonly accepted: number;
}

const task = (await (await fetch("task.json")).json()) as TextsTask;
let answer: FoundTexts | { error: string };
try {
  answer = await found();
} catch (error) {
  answer = { error: String(error) };
}
await fetch("result", { method: "POST", body: JSON.stringify(answer) });

async function found(): Promise<FoundTexts> {
  const { threads, provider, inPlace, allowInexact } = task;
  const wasmPaths = new URL("ort/", location.href).href;
  const pair = await load(`/pairs/${task.pair}`, { threads, provider, inPlace, allowInexact, wasmPaths });
  const [plain, drafted]: [Case[], Case[]] = [[], []];
  let accepted = 0;
  for (const prompt of task.prompts) {
    for (const draft of [false, true]) {
      const { tokenIds, text, stats } = await pair.generate(prompt, {
        draft,
        chat: task.chat,
        maxNewTokens: task.maxNewTokens,
      });
      (draft ? drafted : plain).push({ prompt, tokenIds, text });
      accepted += stats.accepted;
    }
  }
  const { rowInvariance } = pair;
  await pair.dispose();
  return { threads, isolated: crossOriginIsolated, rowInvariance, plain, drafted, accepted };
}
