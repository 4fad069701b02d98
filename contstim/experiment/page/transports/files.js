// What pages without a server of ours share: the study as files beside the page.

import { Final, Passing, requestJson } from "./errors.js";
import { uuid } from "../dom.js";

/**
 * @typedef {import("../types").Kept} Kept
 * @typedef {import("../types").Row} Row
 * @typedef {import("../types").Info} Info
 */

/**
 * Read a file of the study; files that are missing stay missing.
 * @param {string} path
 */
function readFile(path) {
  return requestJson(path).catch((error) => {
    if (error instanceof Final && error.status !== 404) throw new Passing(error.message);
    throw error;
  });
}

export class FilesTransport {
  /** @type {Info} */
  info = /** @type {any} */ (null);

  /** @type {import("../types").Parameters} */
  parameters = new Map();

  knows = false;

  /** Whether rows of all kinds go together. */
  mixed = true;

  /** Find out whether data will be taken, before anybody gives any. */
  async check() {}

  /** Read `study.json`, which lists the assignments besides what is shown before consent. */
  async open() {
    this.info = await readFile("study.json");
    return this.info;
  }

  /** The recruiter's id of this participant, or null; it stays in this browser. */
  get participant() {
    const name = this.info.recruiter?.participant;
    return (name && this.parameters.get(name)?.trim()) || null;
  }

  get identity() {
    return this.participant ?? "";
  }

  /** What is known of the person beside the recruiter's id, to be kept with the consent. */
  get recruiter() {
    return /** @type {Record<string, unknown> | null} */ (null);
  }

  /**
   * Draw an assignment.
   * @param {Info["assignments"]} assignments
   * @returns {Promise<number>}
   */
  async assignment(assignments) {
    return assignments[0].assignment;
  }

  /**
   * Begin a session on the assignment that `assignment()` of the class draws.
   * @param {import("../types").Agreed} consent
   * @returns {Promise<import("../types").Began>}
   */
  async start(consent) {
    const assignment = await this.assignment(this.info.assignments);
    const own = await readFile(`bundles/${assignment}.json`);
    const bundle = { ...this.info, ...own, session: uuid(), answered: {}, elapsed_s: 0 };
    delete bundle.assignments;
    /** @type {Record<string, unknown>} */
    const began = { ...consent, given: true, at: new Date().toISOString() };
    if (this.recruiter) began.recruiter = this.recruiter;
    return { credentials: null, bundle, consent: began };
  }

  /** What is shown while answers do not arrive: its own code, or that of a whole session. */
  get unsent() {
    const { unsent, complete } = this.info.links;
    return unsent.code ? unsent : complete;
  }

  /**
   * @param {Kept} session
   * @returns {Promise<import("../types").Bundle>}
   */
  async resume(session) {
    const elapsed = (Date.now() - session.began) / 1000;
    return { ...session.bundle, elapsed_s: Math.max(0, elapsed) };
  }

  /**
   * How the session ended: here nobody but the page measures the time.
   * @param {string | null} ending
   */
  link(ending) {
    const outcome = ending ?? "complete";
    return { outcome, ...this.info.links[outcome] };
  }

  /**
   * A row as a line of the raw log that `contstim experiment import` reads.
   * @param {Kept} session
   * @param {Row} row
   * @returns {Record<string, unknown>}
   */
  line(session, row) {
    const { study, group, assignment, digest } = session.bundle;
    const line = { study: study.name, session: session.session, group, assignment, digest };
    if (row.kind === "consent") return { ...line, consent: row.body };
    return { ...line, [`${row.kind}s`]: [row.body] };
  }

  /**
   * @param {Kept} session
   * @param {Row[]} rows
   */
  lines(session, rows) {
    return rows.map((row) => `${JSON.stringify(this.line(session, row))}\n`).join("");
  }
}
