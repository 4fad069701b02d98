// What jsPsych plays: instructions, practice, trials and breaks.

import { ContstimChoice, ContstimScreen } from "./choice.js";

const GAP_MS = 150; // the page is empty so long between trials, so that a change is seen

export class Timeline {
  #screens;
  #bundle;
  #hooks;

  /**
   * `hooks`: `presence` counts how the page is left, `done()` is the number of trials answered,
   * `onshow(trial)` is told what is shown (null: no trial), `onanswer(trial, data)` returns when
   * the answer is kept, `onbreak("begin" | "end")`, and `onstart()` when instructions are over.
   */
  constructor(screens, bundle, hooks) {
    this.#screens = screens;
    this.#bundle = bundle;
    this.#hooks = hooks;
  }

  /** The nodes for jsPsych: those of the introduction if wanted, and trials not in `answered`. */
  build(introduced, answered) {
    const { trials, practice, settings } = this.#bundle;
    const isLeft = (one) => !answered.has(one.trial);
    const left = trials.filter(isLeft);
    const nodes = introduced ? this.#introduction(practice.filter(isLeft)) : [];
    for (const [place, trial] of left.entries()) {
      nodes.push(this.#choice(trial));
      const isLast = place === left.length - 1;
      if (settings.breaks.includes(trial.number) && !isLast) nodes.push(this.#break());
    }
    return nodes;
  }

  /** A screen with one button. */
  #screen(name, text, button, values = () => ({})) {
    const screens = this.#screens;
    return {
      type: ContstimScreen,
      show: async (display) => {
        this.#hooks.onshow(null);
        screens.enter(display);
        const heading = screens.say(`${name}_title`);
        await screens.ask(name, heading, text(values()), { go: button });
      },
    };
  }

  #introduction(practice) {
    const say = (key, values) => this.#screens.say(key, values);
    const total = this.#bundle.trials.length;
    const instructions = () => `${say("instructions_text")}\n\n${say("instructions_keys")}`;
    const nodes = [this.#screen("instructions", instructions, "continue_button")];
    if (practice.length) {
      const done = () => say("practice_done_text", { total });
      nodes.push(
        this.#screen("practice", () => say("practice_text"), "continue_button"),
        ...practice.map((trial) => this.#choice(trial)),
        this.#screen("practice_done", done, "practice_done_button"),
      );
    }
    // What came before is not shown again to somebody who comes back later.
    nodes.at(-1).on_finish = () => this.#hooks.onstart();
    return nodes;
  }

  #break() {
    const total = this.#bundle.trials.length;
    const values = () => ({ number: this.#hooks.done(), total });
    const text = (given) => this.#screens.say("break_text", given);
    return {
      ...this.#screen("break", text, "break_button", values),
      on_start: () => this.#hooks.onbreak("begin"),
      on_finish: () => this.#hooks.onbreak("end"),
    };
  }

  #choice(trial) {
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
      say: (key) => screens.say(key),
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
      on_finish: async (data) => {
        await this.#hooks.onanswer(trial, data);
        if (!practice) screens.progress(this.#hooks.done(), total);
        else if (settings.feedback) screens.flash(screens.say("practice_feedback"));
      },
    };
  }
}
