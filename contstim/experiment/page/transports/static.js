// To a DataPipe-style endpoint, a file for each batch; or, without one, to a file that the
// participant saves.

import { FilesTransport } from "./files.js";
import { Final, Passing, requestJson } from "./errors.js";

const STORED_BEFORE = ["FILE_EXISTS", "OSF_FILE_EXISTS"];

export class StaticTransport extends FilesTransport {
  kind = "static";

  constructor(parameters) {
    super();
    this.parameters = parameters;
  }

  /**
   * Each batch becomes a file, so they are not too small; without an endpoint none is sent. A batch
   * that failed is made of the same rows again, also after the page was loaded again.
   */
  get batch() {
    return this.collects ? this.largest : Infinity;
  }

  largest = 20;

  get collects() {
    return Boolean(this.info?.collect.endpoint);
  }

  /** The assignment that the address names, or one of the group that it names, or any. */
  async seat(seats) {
    const wanted = ["seat", "group"].find((name) => this.parameters.has(name));
    const value = Number(this.parameters.get(wanted));
    const open = wanted ? seats.filter((one) => one[wanted] === value) : seats;
    if (!open.length) throw new Final(`the study has no ${wanted} ${value}`, 404);
    const [random] = crypto.getRandomValues(new Uint32Array(1));
    return open[random % open.length].seat;
  }

  async send(session, kind, bodies) {
    const { endpoint, experiment_id: experimentID } = this.info.collect;
    const { name } = session.bundle.study;
    // The same batch always has the same name: sent twice, it is stored once.
    const filename = `${name}_${session.session}_${bodies[0].id.slice(0, 8)}_${bodies.length}.jsonl`;
    const data = this.lines(session, kind, bodies);
    try {
      await requestJson(endpoint, { method: "POST", body: { experimentID, filename, data } });
    } catch (error) {
      const stored = error instanceof Final && STORED_BEFORE.includes(error.body.error);
      // Whatever else the endpoint says, it may think better of it before the session is over.
      if (!stored) throw new Passing(error.message);
    }
    return { acknowledged: bodies.map((body) => body.id), refused: [] };
  }

  async finish(session, overtime) {
    return this.link(overtime);
  }

  async decline() {
    return this.info.links.declined;
  }

}
