// To JATOS through its own client library, `jatos.js`, which JATOS serves beside the page.

import { FilesTransport } from "./files.js";
import { Passing } from "./errors.js";
import { pause } from "../dom.js";

const ASSIGNMENTS_GIVEN = "contstim_assignments_given";
const ALLOCATION_ATTEMPTS = 10;
const CONSENT_DECLINED = "consent declined";

export class JatosTransport extends FilesTransport {
  kind = "jatos";
  mixed = false;
  batch = 1;
  largest = 50;
  collects = true;

  #jatos;

  /** @param {import("../types").Jatos} jatos */
  constructor(jatos) {
    super();
    this.#jatos = jatos;
  }

  /** Wait for the library, then read the study. */
  async open() {
    await new Promise((resolve) => this.#jatos.onLoad(resolve));
    const parameters = this.#jatos.urlQueryParameters ?? {};
    this.parameters = new Map(Object.entries(parameters));
    return super.open();
  }

  /** What JATOS knows of the run goes with the data: pay and exclusion must reach the right person. */
  get recruiter() {
    const names = this.info.recruiter?.parameters ?? [];
    const given = names.filter((name) => this.parameters.has(name));
    return {
      participant: this.participant,
      jatos_result: String(this.#jatos.studyResultId),
      ...Object.fromEntries(given.map((name) => [name, this.parameters.get(name)])),
    };
  }

  /** One run of the study is one session: reloading the page goes on with it. */
  get identity() {
    return `run-${this.#jatos.studyResultId}`;
  }

  /**
   * The next assignment: the batch session counts how many were given, and its versions make sure that
   * two runs never read the same count. Without a batch channel the run's id says it.
   * @param {import("../types").Info["assignments"]} assignments
   */
  async assignment(assignments) {
    const { batchSession } = this.#jatos;
    for (let attempt = 0; attempt < ALLOCATION_ATTEMPTS; attempt += 1) {
      try {
        const given = batchSession.get(ASSIGNMENTS_GIVEN) ?? 0;
        await batchSession.set(ASSIGNMENTS_GIVEN, given + 1);
        return assignments[given % assignments.length].assignment;
      } catch {
        await pause(100 + 400 * Math.random());
      }
    }
    return assignments[Number(this.#jatos.studyResultId) % assignments.length].assignment;
  }

  /**
   * @param {import("../types").Kept} session
   * @param {import("../types").Row[]} rows
   */
  async send(session, rows) {
    try {
      await this.#jatos.appendResultData(this.lines(session, rows));
    } catch (error) {
      throw new Passing(String(error));
    }
    return { acknowledged: rows.map((row) => row.id), refused: [] };
  }

  /**
   * End the run; the page stays, with the code and the way back.
   * @param {import("../types").Kept} session
   * @param {string | null} ending
   */
  async finish(session, ending) {
    await this.#end(true);
    return this.link(ending);
  }

  async decline() {
    await this.#end(false, CONSENT_DECLINED);
    return this.info.links.declined;
  }

  /**
   * @param {boolean} successful
   * @param {string} [message]
   */
  async #end(successful, message) {
    // Named endStudyAjax before JATOS 3.9.
    const jatos = this.#jatos;
    const end = (jatos.endStudyWithoutRedirect ?? jatos.endStudyAjax)?.bind(jatos);
    try {
      await (message === undefined ? end?.(successful) : end?.(successful, message));
    } catch (error) {
      throw new Passing(String(error));
    }
  }
}
