// The pairs that a site offers: pairs/pairs.json, and what each one's manifest says.

/** An entry of pairs.json. */
interface Listed {
  /** Folder beside pairs.json. */
  readonly path: string;
  readonly name?: string;
  /** What it is for, in one sentence. */
  readonly purpose?: string;
  /** Prompts to begin with. */
  readonly samples?: readonly string[];
}

/** A pair that can be opened by a click. */
export interface Offer {
  readonly name: string;
  readonly purpose: string;
  readonly samples: readonly string[];
  readonly url: string;
  /** Of its files; null where the manifest cannot be read. */
  readonly bytes: number | null;
}

const FOLDER = "pairs/";

/** An empty list where the site offers none. */
export async function offeredPairs(): Promise<readonly Offer[]> {
  const listed = await json<readonly (Listed | string)[]>(`${FOLDER}pairs.json`);
  return Promise.all((listed ?? []).map((entry) => offer(typeof entry === "string" ? { path: entry } : entry)));
}

async function offer({ path, name = path, purpose = "", samples = [] }: Listed): Promise<Offer> {
  const manifest = await json<{ files: Record<string, { bytes: number }> }>(`${FOLDER}${path}/edgespec.json`);
  const files = Object.values(manifest?.files ?? {});
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  return { name, purpose, samples, url: absolute(FOLDER + path), bytes: bytes || null };
}

/** An address as a person types it, beside the page or anywhere. */
export function absolute(address: string): string {
  return new URL(address, location.href).href.replace(/\/+$/, "");
}

/** The last part of an address, for a pair that has no other name. */
export function nameOf(url: string): string {
  return decodeURIComponent(url.split("/").findLast((part) => part !== "") ?? url);
}

/** Null where there is nothing, or no JSON. */
async function json<T>(url: string): Promise<T | null> {
  try {
    const response = await fetch(url);
    return response.ok ? ((await response.json()) as T) : null;
  } catch {
    return null;
  }
}
