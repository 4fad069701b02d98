// The trial: two sentences, three levels of confidence on each side, one click or one key.

import { element } from "./dom.js";

const { ParameterType } = window.jsPsychModule;

// From left to right as seen, keys 1 to 6.
const CHOICES = [-3, -2, -1, 1, 2, 3];

/** The place (0 to 5) that a key stands for, or -1. */
export function placeOfKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return -1;
  // The code is the place on the keyboard: layouts may write other signs with the digits' keys.
  const [, digit] = /^(?:Digit|Numpad)([1-6])$/.exec(event.code) ?? [];
  if (digit) return Number(digit) - 1;
  return /^[1-6]$/.test(event.key) && !event.code ? Number(event.key) - 1 : -1;
}

function inputOf(event) {
  if (event.type === "keydown") return "key";
  // Enter, Space and screen readers click without a pointer.
  if (!event.pointerType) return event.detail === 0 ? "key" : "mouse";
  return ["mouse", "touch", "pen"].includes(event.pointerType) ? event.pointerType : "unknown";
}

export class ContstimChoice {
  static info = {
    name: "contstim-choice",
    version: "1.0.0",
    parameters: {
      left: { type: ParameterType.STRING, default: undefined },
      right: { type: ParameterType.STRING, default: undefined },
      /** Says texts of the study by their keys. */
      say: { type: ParameterType.FUNCTION, default: undefined },
      /** What screen readers say before the question, such as the number of the trial. */
      label: { type: ParameterType.STRING, default: "" },
      /** The direction of the sentences' script. */
      direction: { type: ParameterType.STRING, default: "ltr" },
      /** Answers sooner than this after the sentences appear are ignored. */
      minimum_rt_ms: { type: ParameterType.INT, default: 200 },
      /** Returns what counts how the page is left; jsPsych would copy the object itself. */
      presence: { type: ParameterType.FUNCTION, default: undefined },
    },
    data: {
      choice: { type: ParameterType.INT },
      rt_ms: { type: ParameterType.INT },
      input: { type: ParameterType.STRING },
      answered_at: { type: ParameterType.STRING },
      focus_losses: { type: ParameterType.INT },
      hidden_ms: { type: ParameterType.INT },
    },
    citations: {},
  };

  constructor(jsPsych) {
    this.jsPsych = jsPsych;
  }

  trial(display, trial) {
    let shownAt = performance.now();
    let answered = false;
    const heading = element("h1", { tabindex: "-1", class: "prompt" });
    if (trial.label) heading.append(element("span", { class: "unseen", text: `${trial.label}. ` }));
    heading.append(trial.say("trial_prompt"));

    const answer = (place, event) => {
      const rt = event.timeStamp - shownAt;
      if (answered || rt < trial.minimum_rt_ms) return;
      answered = true;
      removeEventListener("keydown", onkey);
      this.jsPsych.finishTrial({
        choice: CHOICES[place],
        rt_ms: Math.round(rt),
        input: inputOf(event),
        answered_at: new Date().toISOString(),
        ...trial.presence().end(),
      });
    };
    const onkey = (event) => {
      const place = placeOfKey(event);
      // A key held down since the last trial is no answer to this one.
      if (place < 0 || event.repeat) return;
      event.preventDefault();
      answer(place, event);
    };

    const side = (name, places) => {
      const label = element("h2", { class: "unseen", text: trial.say(`sentence_${name}`) });
      const text = element("p", { class: "sentence", dir: trial.direction, text: trial[name] });
      const buttons = places.map((place) =>
        element(
          "button",
          {
            type: "button",
            class: "answer",
            dir: trial.direction,
            "aria-label": trial.say(`choice_${place + 1}`),
            "aria-keyshortcuts": String(place + 1),
            // Shown by the style sheet: screen readers say the label and the shortcut.
            "data-key": String(place + 1),
            onclick: (event) => answer(place, event),
          },
          element("span", { text: trial.say(`confidence_${Math.abs(CHOICES[place])}`) }),
        ),
      );
      const group = { class: "answers", role: "group", "aria-label": label.textContent };
      return element("section", { class: "side" }, label, text, element("div", group, buttons));
    };

    display.replaceChildren(
      element(
        "div",
        { class: "trial", "data-screen": "trial" },
        heading,
        // Left is left in every script, as keys and choices are; only the text runs its own way.
        element("div", { class: "sides", dir: "ltr" }, side("left", [0, 1, 2]), side("right", [3, 4, 5])),
        element("p", { class: "hint", text: trial.say("key_hint") }),
      ),
    );
    scrollTo(0, 0);
    heading.focus({ preventScroll: true });
    trial.presence().begin();
    addEventListener("keydown", onkey);
    // The time runs from the first frame that has the sentences; a hidden page has no frames.
    requestAnimationFrame((time) => {
      if (!answered) shownAt = Math.max(shownAt, time);
    });
  }
}

/** A screen as a jsPsych trial: `show` is a function that resolves when it is over. */
export class ContstimScreen {
  static info = {
    name: "contstim-screen",
    version: "1.0.0",
    parameters: { show: { type: ParameterType.FUNCTION, default: undefined } },
    data: {},
    citations: {},
  };

  constructor(jsPsych) {
    this.jsPsych = jsPsych;
  }

  trial(display, trial) {
    trial.show(display).then(() => this.jsPsych.finishTrial({}));
  }
}
