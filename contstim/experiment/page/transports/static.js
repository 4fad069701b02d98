// To a DataPipe-style endpoint, a file for each batch; or, without one, to a file that the
// participant saves.

import { pause } from "../dom.js";
import { FilesTransport } from "./files.js";
import { Final, Passing, requestJson } from "./errors.js";

// DataPipe's words. What is stored already has arrived; an upload that failed may yet succeed.
const STORED_BEFORE = ["FILE_EXISTS", "OSF_FILE_EXISTS"];
const PASSING = ["OSF_UPLOAD_ERROR"];
const FULL = "SESSION_LIMIT_REACHED";

const CHECK_ATTEMPTS = 3;
const CHECK_PAUSE_MS = 1000;

export class StaticTransport extends FilesTransport {
  kind = "static";

  /** @param {URLSearchParams} parameters */
  constructor(parameters) {
    super();
    this.parameters = parameters;
  }

  /**
   * Each batch becomes a file, which DataPipe counts as a session: they are few. Without an endpoint
   * none is sent.
   */
  get batch() {
    return this.collects ? this.largest : Infinity;
  }

  largest = 200;

  get collects() {
    return Boolean(this.info?.collect.endpoint);
  }

  /**
   * The assignment that the address names, or one of the group that it names, or any.
   * @param {import("../types").Info["assignments"]} assignments
   */
  async assignment(assignments) {
    const names = /** @type {const} */ (["assignment", "group"]);
    const wanted = names.find((name) => this.parameters.has(name));
    const value = wanted && Number(this.parameters.get(wanted));
    const open = wanted ? assignments.filter((one) => one[wanted] === value) : assignments;
    if (!open.length) throw new Final(`the study has no ${wanted} ${value}`, 404);
    const [random] = crypto.getRandomValues(new Uint32Array(1));
    return open[random % open.length].assignment;
  }

  /**
   * @param {import("../types").Kept} session
   * @param {import("../types").Row[]} rows
   */
  async send(session, rows) {
    const { name } = session.bundle.study;
    // The same batch always has the same name: sent twice, it is stored once.
    const file = `${name}_${session.session}_${rows[0].id.slice(0, 8)}_${rows.length}.json`;
    // DataPipe takes a JSON array whose objects have a trial_type.
    const typed = rows.map((row) => ({
      trial_type: `contstim-${row.kind}`,
      ...this.line(session, row),
    }));
    await this.#upload(file, typed);
    return { acknowledged: rows.map((row) => row.id), refused: [] };
  }

  /**
   * Ask the endpoint to store a file of always the same name: it is there after the first visit, and
   * an endpoint that takes no data, or cannot be reached, shows itself before anybody has consented.
   */
  async check() {
    if (!this.collects) return;
    const file = `${this.info.study.name}_check.json`;
    for (let attempt = 1; ; attempt += 1) {
      try {
        await this.#upload(file, [{ trial_type: "contstim-check" }]);
        return;
      } catch (error) {
        const refusal = error instanceof Passing ? error.refusal : null;
        const full = refusal === FULL ? { outcome: "full", ...this.info.recruiter?.full } : {};
        if (refusal) throw new Final(refusal, 400, full);
        if (attempt === CHECK_ATTEMPTS) throw error;
      }
      await pause(CHECK_PAUSE_MS);
    }
  }

  /**
   * @param {string} filename
   * @param {Record<string, unknown>[]} rows
   */
  async #upload(filename, rows) {
    const { endpoint, experiment_id: experimentID } = this.info.collect;
    if (!endpoint) return;
    const body = { experimentID, filename, data: JSON.stringify(rows) };
    try {
      await requestJson(endpoint, { method: "POST", body });
    } catch (error) {
      const said = error instanceof Final ? error.body.error : null;
      if (STORED_BEFORE.includes(said)) return;
      const passing = new Passing(error instanceof Error ? error.message : String(error));
      // Its owner may yet mend what it refuses, so it is asked again.
      if (error instanceof Final && !PASSING.includes(said)) passing.refusal = error.message;
      throw passing;
    }
  }

  /**
   * @param {import("../types").Kept} session
   * @param {string | null} ending
   */
  async finish(session, ending) {
    return this.link(ending);
  }

  async decline() {
    return this.info.links.declined;
  }
}
