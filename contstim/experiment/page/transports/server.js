// To the study's own server: every answer is posted as it is made.

import { uuid } from "../dom.js";
import { Final, requestJson } from "./errors.js";

/**
 * @typedef {import("../types").Kept} Kept
 * @typedef {import("../types").Row} Row
 */

const UNACCEPTABLE = [400, 413, 422];

export class ServerTransport {
  kind = "server";

  /** How many rows are sent together at least, and at most. */
  batch = 1;
  largest = 50;

  /** Whether the receiver knows better than the browser which trials are answered. */
  knows = true;

  /** Whether data arrive anywhere by themselves. */
  collects = true;

  /** Whether rows of all kinds go together. */
  mixed = false;

  /** The server was asked for the study already. */
  async check() {}

  /** @type {import("../types").Info} */
  #info = /** @type {any} */ (null);
  #request = uuid(); // the same in every attempt to begin: a reply that is lost costs no assignment

  /** @param {URLSearchParams} parameters */
  constructor(parameters) {
    this.parameters = parameters;
  }

  /** What is shown before consent. */
  async open() {
    this.#info = await requestJson("api/study");
    return this.#info;
  }

  /** The recruiter's id of this participant, or null. */
  get participant() {
    const name = this.#info.recruiter?.participant;
    return (name && this.parameters.get(name)?.trim()) || null;
  }

  /** What tells this participant's sessions in this browser from those of others. */
  get identity() {
    return this.participant ?? "";
  }

  /**
   * Begin a session, or come back to it by the recruiter's id.
   * @param {import("../types").Agreed} consent
   * @returns {Promise<import("../types").Began>}
   */
  async start(consent) {
    const names = this.#info.recruiter?.parameters ?? [];
    const given = names.filter((name) => this.parameters.has(name));
    const body = {
      consent: { ...consent, given: true },
      participant: this.participant,
      request: this.#request,
      parameters: Object.fromEntries(given.map((name) => [name, this.parameters.get(name)])),
    };
    try {
      const { token, bundle } = await requestJson("api/sessions", { method: "POST", body });
      return { credentials: token, bundle };
    } catch (error) {
      if (error instanceof Final && error.status === 503) error.body.outcome ??= "full";
      if (error instanceof Final && error.body.outcome === "complete") {
        error.body.outcome = "already_complete";
      }
      throw error;
    }
  }

  /**
   * The bundle of a session that was begun earlier.
   * @param {Kept} session
   * @returns {Promise<import("../types").Bundle>}
   */
  resume(session) {
    return requestJson("api/session", { headers: bearer(session) });
  }

  /**
   * The trials after number `after`; none yet, if too many are not answered.
   * @param {Kept} session
   * @param {number} after
   * @returns {Promise<import("../types").Further>}
   */
  next(session, after) {
    return requestJson("api/next", { method: "POST", headers: bearer(session), body: { after } });
  }

  /**
   * Send rows of one kind; return the ids that were stored, and those that never will be.
   * @param {Kept} session
   * @param {Row[]} rows
   */
  async send(session, rows) {
    const plural = `${rows[0].kind}s`;
    try {
      const reply = await requestJson(`api/${plural}`, {
        method: "POST",
        headers: bearer(session),
        body: { [plural]: rows.map((row) => row.body) },
      });
      return {
        // A conflict is stored as well, beside the first answer.
        acknowledged: [...(reply.acknowledged ?? []), ...(reply.conflicts ?? [])],
        refused: (reply.refused ?? []).map((/** @type {{id: string}} */ one) => one.id),
        over: Boolean(reply.over),
      };
    } catch (error) {
      // Rows that cannot be read are kept here, for the download; the others go on.
      if (error instanceof Final && UNACCEPTABLE.includes(error.status)) {
        return { acknowledged: [], refused: rows.map((row) => row.id) };
      }
      throw error;
    }
  }

  /**
   * End a session whose answers are all stored: the completion code and where to return to.
   * @param {Kept} session
   * @returns {Promise<import("../types").End>}
   */
  finish(session) {
    return requestJson("api/finish", { method: "POST", headers: bearer(session), body: {} });
  }

  /** Consent was not given. */
  async decline() {
    await requestJson("api/declined", { method: "POST", body: {} });
    return this.#info.recruiter?.declined ?? {};
  }

  /** What is shown while answers do not arrive: the code of a whole session needs them all. */
  get unsent() {
    return this.#info.recruiter?.unsent ?? {};
  }

  /**
   * A row as a line of a raw log, for a download.
   * @param {Kept} session
   * @param {Row} row
   */
  line(session, row) {
    const { study, group, assignment, digest } = session.bundle;
    const line = { study: study.name, session: session.session, group, assignment, digest };
    return { ...line, [`${row.kind}s`]: [row.body] };
  }
}

/** @param {Kept} session */
function bearer(session) {
  return { Authorization: `Bearer ${session.credentials}` };
}
