// Where a trial's presentation comes from: a module of the page, or one of the study's own.

/** @typedef {import("./types").Presentation} Presentation */

/**
 * Load the presentation of a study.
 * @param {string} module its address, relative to the page's scripts
 * @returns {Promise<Presentation>}
 */
export async function loadPresentation(module) {
  const { default: presentation } = await import(new URL(module, import.meta.url).href);
  return presentation;
}

/** A screen as a jsPsych trial: `show` is a function that resolves, with data, when it is over. */
export class ContstimScreen {
  static info = {
    name: "contstim-screen",
    version: "1.0.0",
    parameters: {
      show: { type: window.jsPsychModule.ParameterType.FUNCTION, default: undefined },
    },
    data: {},
    citations: {},
  };

  /** @param {import("jspsych").JsPsych} jsPsych */
  constructor(jsPsych) {
    this.jsPsych = jsPsych;
  }

  /**
   * @param {HTMLElement} display
   * @param {{show: (display: HTMLElement) => Promise<Record<string, unknown> | void>}} trial
   */
  trial(display, trial) {
    trial.show(display).then((data) => this.jsPsych.finishTrial(data ?? {}));
  }
}
