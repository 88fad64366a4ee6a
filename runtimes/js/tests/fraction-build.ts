// The shipped core with operators that compute on fractions too.
//
// The compiled files are parsed, each arithmetic operator and comparison becomes a call of
// `fraction.ts`, and everything else stays as it is. So what is walked is the code that users run.

import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parse, type Node } from "acorn";

const BUILD = fileURLToPath(new URL("../", import.meta.url));
const ROOMS = ["core", "drafters"];
const OPERATORS: Readonly<Record<string, string>> = {
  "+": "add", "-": "subtract", "*": "multiply", "/": "divide",
  "<": "less", "<=": "atMost", ">": "greater", ">=": "atLeast",
}; // prettier-ignore

/** One change of a file, to make a mutant. */
export interface Mutation {
  readonly file: string;
  readonly right: string;
  readonly wrong: string;
}

/** The modules that the tests walk. */
export interface Modules {
  readonly decode: typeof import("../src/core/decode.js");
  readonly verification: typeof import("../src/core/verification.js");
  readonly distribution: typeof import("../src/core/distribution.js");
  readonly controller: typeof import("../src/core/controller.js");
  readonly costs: typeof import("../src/core/cost-model.js");
  readonly modelDrafter: typeof import("../src/drafters/model-drafter.js");
  readonly ngramLookup: typeof import("../src/drafters/ngram-lookup.js");
  readonly alternating: typeof import("../src/drafters/alternating.js");
  readonly vocabulary: typeof import("../src/drafters/vocabulary-map.js");
}

/** Builds core and drafters for fractions. @param name of the build; a mutation needs its own. */
export async function fractionBuild(name: string, mutation?: Mutation): Promise<Modules> {
  const folder = join(BUILD, "fractions", name);
  await mkdir(folder, { recursive: true });
  await cp(join(BUILD, "src", "errors.js"), join(folder, "errors.js"));
  for (const room of ROOMS) {
    await mkdir(join(folder, room), { recursive: true });
    for (const file of (await readdir(join(BUILD, "src", room))).filter((file) => file.endsWith(".js"))) {
      let source = await readFile(join(BUILD, "src", room, file), "utf8");
      if (mutation?.file === `${room}/${file}`) source = mutated(source, mutation);
      await writeFile(join(folder, room, file), overFractions(source));
    }
  }
  const load = (file: string) => import(pathToFileURL(join(folder, file)).href);
  return {
    decode: await load("core/decode.js"),
    verification: await load("core/verification.js"),
    distribution: await load("core/distribution.js"),
    controller: await load("core/controller.js"),
    costs: await load("core/cost-model.js"),
    modelDrafter: await load("drafters/model-drafter.js"),
    ngramLookup: await load("drafters/ngram-lookup.js"),
    alternating: await load("drafters/alternating.js"),
    vocabulary: await load("drafters/vocabulary-map.js"),
  };
}

function mutated(source: string, { file, right, wrong }: Mutation): string {
  if (!source.includes(right)) throw new Error(`${file} has no ${right}`);
  return source.replace(right, wrong);
}

const HEADER = `import * as fractions from "../../../tests/fraction.js";
const { FractionMath: Math, Numbers: Float32Array } = fractions;
`;

function overFractions(source: string): string {
  return HEADER + rendered(parse(source, { ecmaVersion: "latest", sourceType: "module" }), source);
}

type Syntax = Node & { readonly operator?: string; readonly left: Syntax; readonly right: Syntax };

/** The source of a node, its operators replaced. */
function rendered(node: Node, source: string): string {
  const { type, operator = "", left, right } = node as Syntax;
  if (type === "BinaryExpression" && operator in OPERATORS) {
    return `fractions.${OPERATORS[operator]}(${rendered(left, source)}, ${rendered(right, source)})`;
  }
  if (type === "AssignmentExpression" && operator.slice(0, -1) in OPERATORS) {
    const to = rendered(left, source);
    return `${to} = fractions.${OPERATORS[operator.slice(0, -1)]}(${to}, ${rendered(right, source)})`;
  }
  let [text, end] = ["", node.start];
  for (const child of children(node)) {
    text += source.slice(end, child.start) + rendered(child, source);
    end = child.end;
  }
  return text + source.slice(end, node.end);
}

/** The nodes directly inside a node, in the order of the source, each once. */
function children(node: Node): Node[] {
  const isNode = (value: unknown): value is Node => typeof (value as Node | null)?.type === "string";
  const inside = Object.values(node)
    .flat()
    .filter(isNode)
    .sort((a, b) => a.start - b.start);
  return inside.filter((child, index) => index === 0 || child.start >= inside[index - 1]!.end);
}
