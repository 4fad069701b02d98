// What jsPsych plays: instructions, practice, trials and breaks.

import { form, screensOf } from "./forms.js";
import { element } from "./dom.js";
import { ContstimScreen } from "./presentations.js";

/**
 * @typedef {import("./types").Trial} Trial
 * @typedef {import("./types").Answer} Answer
 * @typedef {import("./types").Question} Question
 * @typedef {Record<string, any>} Node
 */

/**
 * What a timeline asks and tells.
 * @typedef {object} Hooks
 * @property {import("./presence.js").Presence} presence counts how the page is left
 * @property {() => number} done the number of trials answered
 * @property {() => number | null} minutes how many are left
 * @property {(trial: Trial | null) => void} onshow told what is shown; null: no trial
 * @property {(trial: Trial, answer: Answer) => Promise<void>} onanswer returns when it is kept
 * @property {(what: "begin" | "end") => void} onbreak
 * @property {() => void} onstart told when the introduction is over
 * @property {(questions: Question[], responses: Record<string, unknown>, rt: number) => Promise<void>}
 *   onresponses returns when they are kept
 */

const GAP_MS = 100; // the page is empty so long between trials, so that a change is seen
const AGAIN_MS = 4000; // what is said of a practice trial that is shown again

export class Timeline {
  #screens;
  #bundle;
  #presentation;
  #hooks;

  /**
   * @param {import("./screens.js").Screens} screens
   * @param {import("./types").Bundle} bundle
   * @param {import("./types").Presentation} presentation
   * @param {Hooks} hooks
   */
  constructor(screens, bundle, presentation, hooks) {
    this.#screens = screens;
    this.#bundle = bundle;
    this.#presentation = presentation;
    this.#hooks = hooks;
  }

  /**
   * The forms of a place in the session, but for questions in `responded`.
   * @param {Question["when"]} when
   * @param {Set<string>} responded
   * @returns {Node[]}
   */
  forms(when, responded) {
    const asked = this.#bundle.questions.filter((one) => one.when === when);
    return screensOf(asked.filter((one) => !responded.has(one.name))).map((one) => this.#form(one));
  }

  /**
   * What comes before the trials.
   * @param {Set<string>} answered the ids of practice trials that need not be shown
   * @param {Set<string>} responded
   */
  introduction(answered, responded) {
    const practice = this.#bundle.practice.filter((one) => !answered.has(one.trial));
    return [
      ...this.forms("before", responded),
      ...this.#instructions(practice, this.forms("instructions", responded)),
    ];
  }

  /**
   * Trials, with the breaks between them.
   * @param {Trial[]} trials
   * @param {boolean} more whether others follow these
   * @returns {Node[]}
   */
  trials(trials, more) {
    const { breaks } = this.#bundle.settings;
    return trials.flatMap((trial, place) => {
      const isLast = place === trials.length - 1 && !more;
      const shown = this.#trial(trial);
      return breaks.includes(trial.number) && !isLast ? [shown, this.#break()] : [shown];
    });
  }

  /** @param {Question[]} questions */
  #form(questions) {
    const screens = this.#screens;
    return form(questions, {
      say: (key) => screens.say(key),
      onshow: () => {
        this.#hooks.onshow(null);
        screens.enter(null);
      },
      again: () => screens.flash(screens.say("form_again"), AGAIN_MS),
      onresponses: (responses, rt) => this.#hooks.onresponses(questions, responses, rt),
    });
  }

  /**
   * A screen with one button; `more()` is shown below its text.
   * @param {string} name
   * @param {(values: Record<string, unknown>) => string} text
   * @param {string} button
   * @param {() => Record<string, unknown>} values
   * @param {() => Element | null} more
   * @returns {Node}
   */
  #screen(name, text, button, values = () => ({}), more = () => null) {
    const screens = this.#screens;
    return {
      type: ContstimScreen,
      show: async (/** @type {HTMLElement} */ display) => {
        this.#hooks.onshow(null);
        screens.enter(display);
        const heading = screens.say(`${name}_title`);
        await screens.ask(name, heading, text(values()), { go: button }, more());
      },
    };
  }

  /**
   * @param {Trial[]} practice
   * @param {Node[]} forms
   * @returns {Node[]}
   */
  #instructions(practice, forms) {
    const { say } = this.#screens;
    const { settings } = this.#bundle;
    const limit = settings.time_limit_s;
    const instructions = () => {
      const parts = [say("instructions_text")];
      if (!matchMedia("(hover: none) and (pointer: coarse)").matches) {
        parts.push(say("instructions_keys"));
      }
      if (limit) parts.push(say("time_limit_told", { minutes: Math.round(limit / 60) }));
      return parts.join("\n\n");
    };
    const picture = () => {
      const made = this.#presentation.picture?.(this.#tools("", false));
      return made ? element("div", { class: "picture", "aria-hidden": "true" }, made) : null;
    };
    const nodes = [
      this.#screen("instructions", instructions, "continue_button", undefined, picture),
      ...forms,
    ];
    if (practice.length) {
      const done = () => say("practice_done_text", { total: settings.n_trials });
      nodes.push(
        this.#screen("practice", () => say("practice_text"), "continue_button"),
        ...practice.map((trial) => this.#practice(trial)),
        this.#screen("practice_done", done, "practice_done_button"),
      );
    }
    // What came before is not shown again to somebody who comes back later.
    return [{ timeline: nodes, on_timeline_finish: () => this.#hooks.onstart() }];
  }

  /**
   * A practice trial, again until it was answered as expected, if anything is.
   * @param {Trial} trial
   */
  #practice(trial) {
    const { settings } = this.#bundle;
    const { say } = this.#screens;
    let right = true;
    const node = this.#trial(trial, async (data) => {
      right = !trial.expected || isExpected(data.choice, trial.expected);
      if (right) await this.#hooks.onanswer(trial, data);
      if (!right) this.#screens.flash(say("practice_again"), AGAIN_MS);
      else if (settings.feedback) this.#screens.flash(say("practice_feedback"));
    });
    return { timeline: [node], loop_function: () => !right };
  }

  #break() {
    const total = this.#bundle.settings.n_trials;
    const values = () => ({ number: this.#hooks.done(), total });
    const text = (/** @type {Record<string, unknown>} */ given) => {
      const minutes = this.#hooks.minutes();
      if (minutes === null) return this.#screens.say("break_text", given);
      return this.#screens.say("break_text_limited", { ...given, minutes });
    };
    return {
      ...this.#screen("break", text, "break_button", values),
      on_start: () => this.#hooks.onbreak("begin"),
      on_finish: () => this.#hooks.onbreak("end"),
    };
  }

  /**
   * @param {string} label
   * @param {boolean} labelled
   * @returns {import("./types").Tools}
   */
  #tools(label, labelled) {
    const { settings, study } = this.#bundle;
    const { say } = this.#screens;
    return { say, settings, direction: study.dir, label, labelled, Screen: ContstimScreen };
  }

  /**
   * A trial as the study's presentation shows it; `keep` returns when the answer is kept.
   * @param {Trial} trial
   * @param {(data: Answer) => Promise<void>} [keep]
   * @returns {Node}
   */
  #trial(trial, keep) {
    const screens = this.#screens;
    const { presence, onshow, done } = this.#hooks;
    const total = this.#bundle.settings.n_trials;
    const practice = trial.kind === "practice";
    const label = practice
      ? screens.say("practice_title")
      : screens.say("trial_label", { number: trial.number, total });
    const node = this.#presentation.node(trial, this.#tools(label, practice));
    return {
      post_trial_gap: GAP_MS,
      ...node,
      on_start: (/** @type {any} */ started) => {
        onshow(trial);
        screens.enter(null);
        if (!practice) screens.progress(done(), total);
        node.on_start?.(started);
      },
      on_load: () => {
        presence.begin();
        node.on_load?.();
      },
      // jsPsych waits until the answer is kept before it goes on.
      on_finish: async (/** @type {any} */ data) => {
        await node.on_finish?.(data);
        if (data.choice === undefined) return; // jsPsych was stopped
        const { choice, rt_ms, input = "unknown", detail = null } = data;
        const answered_at = data.answered_at ?? new Date().toISOString();
        const answer = { choice, rt_ms, input, answered_at, detail, ...presence.end() };
        await (keep ? keep(answer) : this.#hooks.onanswer(trial, answer));
        if (!practice) screens.progress(done(), total);
      },
    };
  }
}

/**
 * Whether a choice is the one that a practice trial asks for.
 * @param {number} choice
 * @param {string} expected a side, yes or no, or a number
 */
export function isExpected(choice, expected) {
  if (expected === "left") return choice < 0;
  if (expected === "right") return choice > 0;
  return choice === ({ yes: 1, no: 2 }[expected] ?? Number(expected));
}
