// Rows on their way: kept by the browser first, then sent until they are acknowledged.

import { pause } from "./dom.js";
import { Final, Passing } from "./transports/errors.js";

/**
 * @typedef {import("./types").Row} Row
 * @typedef {import("./types").Transport} Transport
 */

/**
 * Kinds of rows, in the order in which they are sent.
 * @type {import("./types").RowKind[]}
 */
const KINDS = ["consent", "answer", "event"];

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 20_000;
const LEAST_PAUSE_MS = 500;

/**
 * Whether a row is what the study is for, and not only what happened meanwhile.
 * @param {Row} row
 */
function isData(row) {
  return row.kind !== "event" || row.body.kind === "responses";
}

/**
 * The names of the questions that a row answers.
 * @param {Row} row
 */
function questionsOf(row) {
  if (row.kind !== "event" || row.body.kind !== "responses") return [];
  return Object.keys(JSON.parse(row.body.detail).responses);
}

export class Outbox {
  #store;
  #transport;
  #session;
  /** @type {Row[]} */
  #rows = [];
  #last = 0; // the order of the newest row
  #wake = () => {};
  #woken = false;
  #hurry = false;
  /** @type {Row[]} */
  #failed = []; // the rows of the last attempt, if it failed
  #running = false;
  #closing = new AbortController();

  /** Told after every change; reads `waiting` and `failing`. */
  onchange = () => {};

  /**
   * Set once the receiver will take no more of this session.
   * @type {Final | null}
   */
  ended = null;

  /** Whether the receiver has said that the session is over; what is left is still sent. */
  over = false;

  /**
   * Why the last attempt to send failed, or null.
   * @type {unknown}
   */
  failing = null;

  /**
   * @param {import("./store.js").Store} store
   * @param {Transport} transport
   * @param {import("./types").Kept} session
   */
  constructor(store, transport, session) {
    this.#store = store;
    this.#transport = transport;
    this.#session = session;
    const { signal } = this.#closing;
    for (const name of ["online", "pageshow"]) {
      addEventListener(name, () => this.#rouse(), { signal });
    }
    document.addEventListener("visibilitychange", () => document.hidden || this.#rouse(), { signal });
  }

  /** Send no more. */
  close() {
    this.#closing.abort();
  }

  /** Read what earlier visits left and begin to send it. */
  async open() {
    this.#rows = await this.#store.rows(this.#session.session);
    this.#last = this.#rows.at(-1)?.order ?? 0;
    this.#start();
  }

  /** What a receiver of files said that takes none, or null. */
  get refusal() {
    return this.failing instanceof Passing ? this.failing.refusal : null;
  }

  /** Answers to trials and questions (and the consent, where it is a row) not acknowledged yet. */
  get waiting() {
    return this.#rows.filter((row) => row.state === "waiting" && isData(row)).length;
  }

  /** Answers that the receiver will not take. */
  get refused() {
    return this.#rows.filter((row) => row.kind === "answer" && row.state === "refused").length;
  }

  /** The names of the questions that have an answer. */
  get responded() {
    const rows = this.#rows.filter((row) => row.state !== "refused");
    return new Set(rows.flatMap((row) => questionsOf(row)));
  }

  /**
   * The trials that have an answer and what was chosen first.
   * @returns {Map<string, number>}
   */
  get answered() {
    const answers = this.#rows.filter((row) => row.kind === "answer").reverse();
    return new Map(answers.map((row) => [row.body.trial, row.body.choice]));
  }

  /** All rows as JSON lines, for a download. */
  lines() {
    return this.#rows.map((row) => JSON.stringify(this.#transport.line(this.#session, row)));
  }

  /**
   * Keep a row; when this returns it outlives the page.
   * @param {import("./types").RowKind} kind
   * @param {Record<string, any>} body
   */
  async keep(kind, body) {
    const { session } = this.#session;
    /** @type {Row} */
    const row = { id: body.id, session, order: ++this.#last, kind, body, state: "waiting" };
    await this.#store.keepRow(row);
    this.#rows.push(row);
    this.onchange();
    this.#rouse();
  }

  /**
   * Send again what the receiver turns out not to have.
   * @param {Set<string>} trials ids
   * @param {Set<string>} questions
   */
  async resend(trials, questions = new Set()) {
    const lost = this.#rows.filter((row) => {
      if (row.state === "waiting") return false;
      if (row.kind === "answer") return trials.has(row.body.trial);
      // What the study does not ask any more is asked anew.
      return row.state === "acknowledged" && questionsOf(row).some((name) => questions.has(name));
    });
    for (const row of lost) row.state = "waiting";
    await this.#store.changeRows(lost);
    this.#rouse();
  }

  /**
   * Wait until every answer is acknowledged, at most so many milliseconds.
   * Returns whether they all are.
   * @param {number} patience
   */
  async flush(patience) {
    this.#hurry = true;
    this.#rouse();
    const end = performance.now() + patience;
    while (this.waiting && !this.ended && performance.now() < end) {
      await pause(100);
    }
    return this.waiting === 0;
  }

  #rouse() {
    this.#woken = true;
    this.#wake();
    this.#start();
  }

  #start() {
    if (this.#running || this.ended || this.#closing.signal.aborted) return;
    this.#running = true;
    this.#send().finally(() => {
      this.#running = false;
      // A row may have come between the loop's last look and here.
      if (this.#batch().length) this.#start();
    });
  }

  #batch() {
    const waiting = this.#rows.filter((row) => row.state === "waiting");
    const { collects, batch } = this.#transport;
    const enough = this.#hurry && collects ? 1 : batch;
    if (this.#transport.mixed) {
      // A file that seemed to fail is sent with the same rows again, hence under the same name.
      if (this.#failed.length) return this.#failed;
      // Events alone are not worth a file.
      const due = waiting.length >= enough && waiting.some(isData);
      return due ? waiting.slice(0, this.#transport.largest) : [];
    }
    for (const kind of KINDS) {
      const rows = waiting.filter((row) => row.kind === kind);
      if (rows.length && rows.length >= enough) return rows.slice(0, this.#transport.largest);
    }
    return [];
  }

  async #send() {
    let failures = 0;
    const over = () => this.ended || this.#closing.signal.aborted;
    for (let batch = this.#batch(); batch.length && !over(); batch = this.#batch()) {
      this.#woken = false;
      try {
        await this.#deliver(batch);
        failures = 0;
        this.#failed = [];
      } catch (error) {
        this.#failed = batch;
        this.failing = error;
        if (error instanceof Final) this.ended = error;
        else await this.#rest(failures++);
      }
      this.onchange();
    }
  }

  /** @param {Row[]} batch */
  async #deliver(batch) {
    const reply = await this.#transport.send(this.#session, batch);
    if (reply.over) this.over = true;
    const acknowledged = new Set(reply.acknowledged);
    const refused = new Set(reply.refused);
    const settled = batch.filter((row) => acknowledged.has(row.id) || refused.has(row.id));
    if (!settled.length) throw new Error("nothing was acknowledged");
    this.failing = null; // nothing waits, and nothing fails: at one moment
    for (const row of settled) row.state = acknowledged.has(row.id) ? "acknowledged" : "refused";
    await this.#store.changeRows(settled);
  }

  /**
   * Pause between attempts, longer after each failure; a new row or the network shortens it.
   * @param {number} failures
   */
  async #rest(failures) {
    const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
    await pause(LEAST_PAUSE_MS * (0.5 + Math.random()));
    if (this.#woken) return;
    await Promise.race([
      pause(longest * (0.5 + Math.random() / 2)),
      new Promise((resolve) => {
        this.#wake = () => resolve(undefined);
      }),
    ]);
  }
}
