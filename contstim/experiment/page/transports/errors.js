// How requests fail: for now, which is worth another attempt, or for good.

/** The receiver has answered that it will not do this; `status` is HTTP's. */
export class Final extends Error {
  /**
   * @param {string} message
   * @param {number} status
   * @param {Record<string, any>} body
   */
  constructor(message, status, body = {}) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

/**
 * No answer, or one that may be another a little later. `refusal` is what a receiver of files said
 * that takes none for a reason of its own, which its owner may mend while the session runs.
 */
export class Passing extends Error {
  /** @type {string | null} */
  refusal = null;
}

const TIMEOUT_MS = 20_000;

/**
 * Ask for JSON; `Passing` if there was no answer or a server in trouble, `Final` if refused.
 * @param {string} url
 * @param {{method?: string, body?: unknown, headers?: Record<string, string>}} options
 * @returns {Promise<any>}
 */
export async function requestJson(url, { method = "GET", body, headers = {} } = {}) {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), TIMEOUT_MS);
  let response;
  let text;
  try {
    response = await fetch(url, {
      method,
      headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "same-origin",
      signal: abort.signal,
    });
    text = await response.text();
  } catch (error) {
    throw new Passing(String(error));
  } finally {
    clearTimeout(timer);
  }
  /** @type {Record<string, any>} */
  let value = {};
  try {
    value = text ? JSON.parse(text) : {};
  } catch {
    if (response.ok) throw new Passing("the answer is not JSON");
  }
  if (response.ok) return value;
  const message = typeof value.error === "string" ? value.error : `status ${response.status}`;
  const passing = [408, 425, 429].includes(response.status) || response.status >= 500;
  // A full study answers 503 with a code or null: asking again would not help.
  if (passing && !("code" in value)) throw new Passing(message);
  throw new Final(message, response.status, value);
}

/**
 * Repeat until it succeeds or fails for good; `told` hears of each failure that passes.
 * @template T
 * @param {() => Promise<T>} work
 * @param {(error: Passing) => void} told
 * @returns {Promise<T>}
 */
export async function persist(work, told = () => {}) {
  for (let failures = 0; ; failures += 1) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Passing)) throw error;
      told(error);
      const longest = Math.min(15_000, 500 * 2 ** failures);
      await new Promise((resolve) => setTimeout(resolve, longest * (0.5 + Math.random() / 2)));
    }
  }
}
