// One participant's way through the study, from the first screen to the code.

import { failedChecks } from "./checks.js";
import { element, pause, uuid } from "./dom.js";
import { screensOut } from "./forms.js";
import { Outbox } from "./outbox.js";
import { Presence } from "./presence.js";
import { isStacked } from "./presentations/common.js";
import { takeTurn } from "./tabs.js";
import { Timeline } from "./timeline.js";
import { Final, Passing, persist } from "./transports/errors.js";

/**
 * @typedef {import("./types").Kept} Kept
 * @typedef {import("./types").Bundle} Bundle
 * @typedef {import("./types").Trial} Trial
 */

const LONGEST_TIMER_MS = 2 ** 31 - 1;
const PATIENCE_MS = 20_000; // until the participant is told that answers do not arrive
const LEFTOVERS_PATIENCE_MS = 3_600_000;
const DEADLINE_MARGIN_MS = 1000; // the server measures the time; it must agree that it is over
const RETRY_MS = 1000;
const NEXT_MS = 2000; // between attempts to get trials that wait for answers
const WARNING_MS = 300_000; // before the time is over, or at its last quarter
const WARNED_MS = 15_000;
const SETTLED_MS = 500; // after a change of the window's size
const MOST_CHANGES = 20; // of the window that are kept
const RESUME_PATIENCE_MS = 6_000; // until the browser's own copy of a session serves

export class Session {
  #transport;
  #store;
  #screens;
  #info;
  #presentation;
  /** @type {Kept | null} */
  #kept = null; // the session that is going on, as the store has it
  /** @type {Outbox | null} */
  #box = null;
  #presence = new Presence();
  #trial = ""; // the id of the trial that is shown

  /**
   * @param {import("./types").Transport} transport
   * @param {import("./store.js").Store} store
   * @param {import("./screens.js").Screens} screens
   * @param {import("./types").Info} info
   * @param {import("./types").Presentation} presentation
   */
  constructor(transport, store, screens, info, presentation) {
    this.#transport = transport;
    this.#store = store;
    this.#screens = screens;
    this.#info = info;
    this.#presentation = presentation;
    this.#presence.onchange = (kind) => this.#event(kind, this.#trial);
    screens.onshow = (name) => this.#event("screen", name);
    for (const kind of ["offline", "online"]) addEventListener(kind, () => this.#event(kind, ""));
    store.onloss = () => this.#report();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    addEventListener("resize", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.#tellEnvironment(), SETTLED_MS);
    });
  }

  /** What `#open` has opened. */
  get #record() {
    return /** @type {Kept} */ (this.#kept);
  }

  get #outbox() {
    return /** @type {Outbox} */ (this.#box);
  }

  get #key() {
    const { kind, identity } = this.#transport;
    return `${kind}:${this.#info.study.name}:${identity}`;
  }

  /** Run to the end, whatever it is. */
  async run() {
    try {
      if (lacksId(this.#info.recruiter, this.#transport.participant)) {
        this.#screens.end({ outcome: "participant_missing" });
        return;
      }
      const elsewhere = (/** @type {Promise<unknown>} */ turn) => this.#screens.whileElsewhere(turn);
      await takeTurn(`contstim ${this.#key}`, elsewhere);
      this.#sendLeftovers();
      if (!(await this.#begin())) return;
      await this.#trials();
      await this.#finish();
    } catch (error) {
      if (error instanceof Final && error.body.outcome) this.#ended(error);
      else throw error;
    }
  }

  /** Send what other sessions in this browser still hold, without waiting for it. */
  async #sendLeftovers() {
    if (!this.#transport.collects) return;
    for (const record of await this.#store.sessions()) {
      const ours = record.key.startsWith(`${this.#transport.kind}:${this.#info.study.name}:`);
      if (ours && record.key !== this.#key && !record.end) await this.#forward(record);
    }
  }

  /** @param {Kept} record */
  async #forward(record) {
    const outbox = new Outbox(this.#store, this.#transport, record);
    await outbox.open();
    if (await outbox.flush(LEFTOVERS_PATIENCE_MS)) {
      await this.#store.dropRows(record.session);
      await this.#store.dropSession(record.key);
    }
    outbox.close();
  }

  /** Come back to a session or begin one; false if it ends here. */
  async #begin() {
    const kept = await this.#store.session(this.#key);
    if (kept && (await this.#resume(kept))) return true;
    if (!admits(this.#info.device)) {
      this.#screens.device();
      return false;
    }
    try {
      await this.#transport.check();
    } catch (error) {
      if (!(error instanceof Passing)) throw error;
      this.#screens.unreachable();
      return false;
    }
    const { consent } = this.#info;
    const ticked = await this.#screens.consent(consent);
    if (!ticked) {
      this.#screens.wait();
      const link = await persist(() => this.#transport.decline(), this.#unreached);
      this.#screens.notice("");
      this.#screens.end({ ...link, outcome: "declined" });
      return false;
    }
    this.#screens.wait();
    const { version, sha256 } = consent;
    const began = await persist(() => this.#transport.start({ version, sha256 }), this.#unreached);
    this.#screens.notice("");
    await this.#open({
      key: this.#key,
      session: began.bundle.session,
      credentials: began.credentials,
      bundle: began.bundle,
      began: Date.now(),
      stage: "instructions",
      end: null,
    });
    if (began.consent) {
      const { materials } = this.#info;
      await this.#outbox.keep("consent", { id: uuid(), ...began.consent, materials });
    }
    if (consent.boxes.length) {
      await this.#event("responses", JSON.stringify({ responses: ticked, rt_ms: null }));
    }
    // A recruiter's participant may have begun in another browser.
    if (this.#done().size) this.#record.stage = "trials";
    return true;
  }

  /**
   * Go on with a session that this browser has; false if there is none to go on with.
   * @param {Kept} kept
   */
  async #resume(kept) {
    const mayBeAnother = this.#transport.identity === "";
    if (kept.end) {
      this.#kept = kept;
      // This is over only when somebody else wants to begin.
      await this.#screens.end(kept.end, null, mayBeAnother);
      await this.#store.dropSession(kept.key);
      this.#kept = null;
      return false;
    }
    let bundle;
    try {
      bundle = await this.#refreshed(kept);
    } catch (error) {
      // The server knows nothing of this session: another study of that name, or a new store.
      if (error instanceof Final && [401, 403, 404].includes(error.status)) {
        return this.#putAside(kept);
      }
      throw error;
    }
    await this.#open({ ...kept, bundle });
    if (this.#transport.knows) {
      const known = new Set(Object.keys(bundle.answered));
      const missing = bundle.trials.map((one) => one.trial).filter((id) => !known.has(id));
      await this.#outbox.resend(new Set(missing));
    }
    const done = this.#done().size;
    this.#event("resume", String(done));
    const total = bundle.more ? bundle.settings.n_trials : bundle.trials.length;
    if (this.#over || done === total) return true;
    if (done === 0 && this.#record.stage === "instructions") return true;
    this.#screens.progress(done, total);
    if (await this.#screens.resume({ number: done + 1, total }, mayBeAnother)) return true;
    this.#screens.hideProgress();
    return this.#putAside(kept);
  }

  /**
   * The bundle with what the server has of it; the browser's copy if it does not answer.
   * @param {Kept} kept
   * @returns {Promise<Bundle>}
   */
  async #refreshed(kept) {
    /** @type {Promise<Bundle>} */
    const late = new Promise((resolve) => {
      setTimeout(() => resolve(kept.bundle), RESUME_PATIENCE_MS);
    });
    return Promise.race([persist(() => this.#transport.resume(kept)), late]);
  }

  /**
   * Keep a session under another key, so that its answers are still sent.
   * @param {Kept} kept
   */
  async #putAside(kept) {
    this.#box?.close();
    this.#box = null;
    this.#kept = null;
    const aside = { ...kept, key: `${kept.key}:${kept.session}` };
    await this.#store.keepSession(aside);
    await this.#store.dropSession(kept.key);
    if (this.#transport.collects) this.#forward(aside);
    return false;
  }

  /** @param {Kept} record */
  async #open(record) {
    this.#kept = record;
    const { elapsed_s: elapsed, settings } = record.bundle;
    if (settings.time_limit_s) {
      const left = Math.max(0, settings.time_limit_s - elapsed) * 1000 + DEADLINE_MARGIN_MS;
      this.#deadline = performance.now() + left;
      // By then somebody else may be at it, with time of their own.
      const stop = () => this.#kept && this.#over && this.#stop();
      if (left < LONGEST_TIMER_MS) setTimeout(stop, left + 1);
      const warn = left - Math.min(WARNING_MS, (settings.time_limit_s * 1000) / 4);
      if (warn > 0 && warn < LONGEST_TIMER_MS) setTimeout(() => this.#warn(), warn);
    }
    await this.#store.keepSession(record);
    this.#box = new Outbox(this.#store, this.#transport, record);
    this.#box.onchange = () => this.#report();
    await this.#outbox.open();
    this.#told = "";
    this.#tellEnvironment();
    this.#report();
  }

  #unreached = () => this.#screens.notice(this.#screens.say("offline"));

  /** Tell the participant what there is to know about the way of the answers. */
  #report() {
    if (!this.#box) return;
    const { collects } = this.#transport;
    // The last screens speak of it themselves.
    const unsent = collects && !this.#finishing && this.#outbox.failing && this.#outbox.waiting;
    let text = "";
    if (!this.#store.lasting) text = this.#screens.say("storage_unavailable");
    else if (unsent) {
      const { refusal } = this.#outbox;
      text = refusal ? this.#screens.say("refused", { reason: refusal }) : this.#screens.say("offline");
    }
    this.#screens.notice(text);
    if (this.#outbox.ended || this.#outbox.over) this.#stop();
  }

  /** Whether the time is over, or the session was ended elsewhere: no more trials are shown. */
  get #over() {
    const ended = this.#box?.over || Boolean(this.#record.bundle.finished);
    return ended || this.#failed("at_once") || performance.now() >= this.#deadline;
  }

  /**
   * Whether the session fails by its attention checks, as far as the page is to see to that:
   * `at_once`, or when all trials are answered.
   * @param {"at_once" | "in_the_end"} when
   */
  #failed(when) {
    const { checks } = this.#record.bundle.settings;
    if (!checks || (when === "at_once" && !checks.at_once)) return false;
    return failedChecks(checks, this.#outbox.answered) >= checks.from;
  }

  #deadline = Infinity;

  /** The minutes that are left, or null where there is no limit. */
  get #minutes() {
    const left = this.#deadline - DEADLINE_MARGIN_MS - performance.now();
    return left < Infinity ? Math.max(0, Math.round(left / 60_000)) : null;
  }

  #warn() {
    if (!this.#kept?.bundle || this.#finishing || this.#over) return;
    const text = this.#screens.say("time_warning", { minutes: Math.max(1, this.#minutes ?? 0) });
    this.#screens.flash(text, WARNED_MS);
  }

  #finishing = false;

  /** Break off the trials; what was answered is sent all the same. */
  #stop() {
    this.#jsPsych?.abortExperiment("");
  }

  #told = ""; // the environment as it was last told
  #changes = 0;

  /** Keep what the study is shown on, when a session opens and when the window changes. */
  #tellEnvironment() {
    const found = JSON.stringify(environment());
    if (!this.#box || found === this.#told || (this.#changes += 1) > MOST_CHANGES) return;
    this.#told = found;
    this.#event("environment", found);
  }

  /**
   * @param {string} kind
   * @param {string} detail
   */
  async #event(kind, detail) {
    if (!this.#box || this.#kept?.end) return undefined;
    return this.#outbox.keep("event", { id: uuid(), kind, at: new Date().toISOString(), detail });
  }

  /** The ids of the trials of this session that have an answer, here or at the receiver. */
  #done() {
    const { trials, answered } = this.#record.bundle;
    const known = new Set([...Object.keys(answered), ...this.#outbox.answered.keys()]);
    return new Set(trials.map((one) => one.trial).filter((id) => known.has(id)));
  }

  /** @type {import("jspsych").JsPsych | null} */
  #jsPsych = null;

  /** Show instructions and practice if they are still to come, then trials, then questions. */
  async #trials() {
    const { bundle, stage } = this.#record;
    const timeline = new Timeline(this.#screens, bundle, this.#presentation, {
      presence: this.#presence,
      done: () => this.#done().size,
      onshow: (trial) => {
        this.#trial = trial?.trial ?? "";
        if (trial) this.#shown = this.#store.countShown(this.#record.session, trial.trial);
      },
      onanswer: (trial, data) => this.#answer(trial, data),
      onbreak: (what) => this.#event("break", what),
      minutes: () => this.#minutes,
      onstart: () => this.#enter("trials"),
      onresponses: (questions, responses, rt) => this.#respond(questions, responses, rt),
    });
    const answered = () => {
      return new Set([...this.#outbox.answered.keys(), ...Object.keys(bundle.answered)]);
    };
    const responded = () => new Set([...this.#outbox.responded, ...(bundle.responded ?? [])]);
    if (stage === "instructions") {
      await this.#play(timeline.introduction(answered(), responded()));
    }
    for (;;) {
      const more = Boolean(bundle.more);
      const left = bundle.trials.filter((one) => !answered().has(one.trial));
      const last = bundle.trials.length;
      // While these are answered, those after them come: the connection may drop meanwhile.
      const coming = more ? this.#fetch().catch((error) => error) : null;
      await this.#play(timeline.trials(left, more));
      if (!coming || this.#over || this.#screenedOut || this.#outbox.ended) break;
      if (bundle.trials.length === last) this.#screens.wait();
      const failed = await coming;
      if (failed) throw failed;
    }
    await this.#play(timeline.forms("after", responded()));
    if (this.#outbox.ended) throw this.#outbox.ended;
  }

  /** Fetch the trials that follow those of the bundle, and keep them. */
  async #fetch() {
    const { bundle } = this.#record;
    const after = bundle.trials.at(-1)?.number ?? 0;
    while (!this.#over && !this.#outbox.ended) {
      const ask = async () => this.#transport.next?.(this.#record, after);
      const found = await persist(ask, () => this.#report());
      if (found?.trials.length || !found?.more) {
        bundle.trials.push(...(found?.trials ?? []));
        bundle.more = Boolean(found?.more);
        await this.#store.keepSession(this.#record);
        return;
      }
      await pause(NEXT_MS); // answers are still to come, or on their way
    }
  }

  /**
   * Have jsPsych play nodes, unless the session has come to its end.
   * @param {any[]} nodes
   */
  async #play(nodes) {
    if (!nodes.length || this.#over || this.#screenedOut || this.#outbox.ended) return;
    this.#jsPsych = window.initJsPsych({ display_element: this.#screens.clear() });
    await this.#jsPsych.run(nodes);
    this.#jsPsych = null;
    this.#screens.clear();
  }

  #screenedOut = false;

  /**
   * @param {import("./types").Question[]} questions
   * @param {Record<string, unknown>} responses
   * @param {number} rt_ms
   */
  async #respond(questions, responses, rt_ms) {
    await this.#event("responses", JSON.stringify({ responses, rt_ms }));
    if (!screensOut(questions, responses)) return;
    this.#screenedOut = true;
    this.#stop();
  }

  /** How the session ends here, where it is not by answering everything. */
  get #ending() {
    if (this.#screenedOut) return "screened_out";
    if (this.#failed("at_once")) return "failed_checks";
    const { trials, more } = this.#record.bundle;
    const whole = !more && this.#done().size === trials.length;
    if (whole && this.#failed("in_the_end")) return "failed_checks";
    return this.#over ? "time_limit" : null;
  }

  /** @param {Kept["stage"]} stage */
  async #enter(stage) {
    this.#record.stage = stage;
    await this.#store.keepSession(this.#record);
  }

  #shown = Promise.resolve(1); // how often the trial has been shown

  /**
   * @param {Trial} trial
   * @param {import("./types").Answer} data
   */
  async #answer(trial, data) {
    await this.#outbox.keep("answer", {
      id: uuid(),
      trial: trial.trial,
      ...data,
      detail: data.detail === null ? "" : JSON.stringify(data.detail),
      shown: await this.#shown,
    });
    if (this.#failed("at_once")) this.#stop();
  }

  /** Send what is left and end the session; trials that turn out to be missing are shown. */
  async #finish() {
    this.#trial = "";
    for (;;) {
      this.#finishing = true;
      this.#report();
      if (!this.#transport.collects) await this.#screens.save(() => this.#download());
      else await this.#sent();
      try {
        this.#screens.finishing();
        const finish = () => this.#transport.finish(this.#record, this.#ending);
        const link = await persist(finish, this.#unreached);
        await this.#close(link);
        return;
      } catch (error) {
        if (!(error instanceof Final) || !error.body.missing) throw error;
        await this.#missing(new Set(error.body.missing), new Set(error.body.questions));
      }
    }
  }

  /**
   * Send again what the server lacks, or ask it anew.
   * @param {Set<string>} ids of trials
   * @param {Set<string>} questions
   */
  async #missing(ids, questions) {
    const { bundle } = this.#record;
    for (const id of ids) delete bundle.answered[id];
    bundle.responded = bundle.responded.filter((name) => !questions.has(name));
    this.#finishing = false;
    await this.#outbox.resend(ids, questions);
    await pause(RETRY_MS);
    const unasked = [...questions].some((name) => !this.#outbox.responded.has(name));
    if (unasked) await this.#enter("instructions");
    const short = bundle.more || this.#done().size < bundle.trials.length;
    if (unasked || short) await this.#trials();
  }

  /** Wait until all answers are acknowledged, and say so if it takes long. */
  async #sent() {
    this.#screens.finishing();
    let told = "";
    while (!(await this.#outbox.flush(PATIENCE_MS))) {
      if (this.#outbox.ended) throw this.#outbox.ended;
      const link = this.#transport.unsent;
      const again = () => this.#outbox.flush(0);
      // Shown again, it would take the focus from its buttons.
      const { waiting, refusal } = this.#outbox;
      if (told !== `${waiting} ${refusal}`) {
        told = `${waiting} ${refusal}`;
        this.#screens.unsent(waiting, refusal, link, () => this.#download(), again);
      }
    }
    if (this.#outbox.refused) {
      const link = this.#transport.unsent;
      const again = () => location.reload();
      this.#screens.unsent(this.#outbox.refused, null, link, () => this.#download(), again);
      await new Promise(() => {});
    }
  }

  /**
   * Everything is where it belongs: forget the answers here and show the end.
   * @param {import("./types").End} link
   */
  async #close(link) {
    const { code = null, redirect = null, outcome = "complete" } = this.#screens.filled(link);
    const download = this.#transport.collects ? null : this.#downloader();
    const end = { outcome, code, redirect, session: this.#record.session };
    this.#record.end = end;
    await this.#store.keepSession(withoutBundle(this.#record));
    if (this.#transport.collects) await this.#store.dropRows(this.#record.session);
    this.#outbox.close();
    this.#screens.notice("");
    this.#screens.hideProgress();
    await this.#screens.end(end, download);
  }

  #downloader() {
    const lines = this.#outbox.lines();
    const name = `${this.#info.study.name}_${this.#record.session}.jsonl`;
    return () => saveFile(name, lines);
  }

  #download() {
    this.#downloader()();
  }

  /**
   * The receiver has ended the session.
   * @param {Final} error
   */
  #ended(error) {
    this.#screens.hideProgress();
    this.#screens.notice("");
    this.#screens.end(error.body);
  }
}

/**
 * A session that has ended, as it is kept: the sentences need not be.
 * @param {Kept} record
 * @returns {Kept}
 */
function withoutBundle(record) {
  return { ...record, bundle: /** @type {any} */ (null), credentials: null };
}

/**
 * Whether the recruiter's id of the participant is missing, or none that a recruiter gives.
 * @param {import("./types").Info["recruiter"]} recruiter
 * @param {string | null} id
 */
function lacksId(recruiter, id) {
  if (!recruiter || !id) return Boolean(recruiter?.required);
  const fits = (/** @type {string} */ sign) => {
    return /[A-Za-z0-9_.@-]/.test(sign);
  };
  return id.length > 128 || ![...id].every(fits);
}

/**
 * Whether the study admits this device.
 * @param {import("./types").Info["device"]} device
 */
function admits({ minimum_width: least, touch }) {
  const onlyTouch = matchMedia("(hover: none) and (pointer: coarse)").matches;
  return innerWidth >= least && !(touch === "refuse" && onlyTouch);
}

/** What the study is shown on. */
function environment() {
  return {
    browser: navigator.userAgent,
    languages: navigator.languages.slice(0, 3),
    time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    screen: [screen.width, screen.height],
    viewport: [innerWidth, innerHeight],
    pixel_ratio: Math.round(devicePixelRatio * 100) / 100,
    layout: isStacked() ? "stacked" : "side by side",
    touch: navigator.maxTouchPoints > 0,
  };
}

/**
 * @param {string} name
 * @param {string[]} lines
 */
function saveFile(name, lines) {
  const url = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/plain" }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
