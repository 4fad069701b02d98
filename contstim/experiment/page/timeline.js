// What jsPsych plays: instructions, practice, trials and breaks.

import { ContstimChoice, ContstimScreen, sides } from "./choice.js";
import { element } from "./dom.js";
import { form, screensOf } from "./forms.js";

const GAP_MS = 100; // the page is empty so long between trials, so that a change is seen
const AGAIN_MS = 4000; // what is said of a practice trial that is shown again

export class Timeline {
  #screens;
  #bundle;
  #hooks;

  /**
   * `hooks`: `presence` counts how the page is left, `done()` is the number of trials answered,
   * `onshow(trial)` is told what is shown (null: no trial), `onanswer(trial, data)` returns when
   * the answer is kept, `onbreak("begin" | "end")`, `minutes()` is how many minutes are left, and
   * `onstart()` is told when instructions are over; `onresponses(questions, responses, rt)` returns
   * when answers to questions are kept.
   */
  constructor(screens, bundle, hooks) {
    this.#screens = screens;
    this.#bundle = bundle;
    this.#hooks = hooks;
  }

  /** The nodes for jsPsych: those of the introduction if wanted, and trials not in `answered`. */
  build(introduced, answered, responded) {
    const { trials, practice, questions, settings } = this.#bundle;
    const isLeft = (one) => !answered.has(one.trial);
    const left = trials.filter(isLeft);
    const forms = (when) =>
      screensOf(questions.filter((one) => one.when === when && !responded.has(one.name))).map(
        (screen) => this.#form(screen),
      );
    const nodes = introduced
      ? [...forms("before"), ...this.#introduction(practice.filter(isLeft), forms("instructions"))]
      : [];
    for (const [place, trial] of left.entries()) {
      nodes.push(this.#choice(trial));
      const isLast = place === left.length - 1;
      if (settings.breaks.includes(trial.number) && !isLast) nodes.push(this.#break());
    }
    nodes.push(...forms("after"));
    return nodes;
  }

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

  /** A screen with one button; `more()` is shown below its text. */
  #screen(name, text, button, values = () => ({}), more = () => null) {
    const screens = this.#screens;
    return {
      type: ContstimScreen,
      show: async (display) => {
        this.#hooks.onshow(null);
        screens.enter(display);
        const heading = screens.say(`${name}_title`);
        await screens.ask(name, heading, text(values()), { go: button }, more());
      },
    };
  }

  #introduction(practice, forms) {
    const say = (key, values) => this.#screens.say(key, values);
    const { settings, trials } = this.#bundle;
    const limit = settings.time_limit_s;
    const instructions = () => {
      const parts = [say("instructions_text")];
      if (!matchMedia("(hover: none) and (pointer: coarse)").matches) {
        parts.push(say("instructions_keys"));
      }
      if (limit) parts.push(say("time_limit_told", { minutes: Math.round(limit / 60) }));
      return parts.join("\n\n");
    };
    const picture = () => this.#picture();
    const nodes = [
      this.#screen("instructions", instructions, "continue_button", undefined, picture),
      ...forms,
    ];
    if (practice.length) {
      const done = () => say("practice_done_text", { total: trials.length });
      nodes.push(
        this.#screen("practice", () => say("practice_text"), "continue_button"),
        ...practice.map((trial) => this.#practice(trial)),
        this.#screen("practice_done", done, "practice_done_button"),
      );
    }
    // What came before is not shown again to somebody who comes back later.
    return [{ timeline: nodes, on_timeline_finish: () => this.#hooks.onstart() }];
  }

  /** The buttons as they will be, to look at. */
  #picture() {
    const { settings, study } = this.#bundle;
    const say = (key) => this.#screens.say(key);
    const { levels } = settings;
    const trial = { left: "…", right: "…", levels, direction: study.dir, say };
    return element("div", { class: "picture", "aria-hidden": "true" }, sides(trial));
  }

  /** A practice trial, again until its expected side was chosen, if there is one. */
  #practice(trial) {
    const { settings } = this.#bundle;
    let right = true;
    const choice = this.#choice(trial, async (data) => {
      const chosen = data.choice < 0 ? "left" : "right";
      right = data.choice === undefined || !trial.expected || chosen === trial.expected;
      if (right) await this.#hooks.onanswer(trial, data);
      if (!right) this.#screens.flash(this.#screens.say("practice_again"), AGAIN_MS);
      else if (settings.feedback) this.#screens.flash(this.#screens.say("practice_feedback"));
    });
    return { timeline: [choice], loop_function: () => !right };
  }

  #break() {
    const total = this.#bundle.trials.length;
    const values = () => ({ number: this.#hooks.done(), total });
    const text = (given) => {
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

  #choice(trial, onfinish) {
    const screens = this.#screens;
    const { settings, study, trials } = this.#bundle;
    const total = trials.length;
    const practice = trial.kind === "practice";
    const label = practice
      ? screens.say("practice_title")
      : screens.say("trial_label", { number: trial.number, total });
    return {
      type: ContstimChoice,
      left: trial.left,
      right: trial.right,
      label,
      labelled: practice,
      levels: settings.levels,
      say: (key, values) => screens.say(key, values),
      direction: study.dir,
      minimum_rt_ms: settings.minimum_rt_ms,
      presence: () => this.#hooks.presence,
      post_trial_gap: GAP_MS,
      on_start: () => {
        this.#hooks.onshow(trial);
        screens.enter(null);
        if (!practice) screens.progress(this.#hooks.done(), total);
      },
      // jsPsych waits until the answer is kept before it goes on.
      on_finish: onfinish ?? (async (data) => {
        await this.#hooks.onanswer(trial, data);
        screens.progress(this.#hooks.done(), total);
      }),
    };
  }
}
