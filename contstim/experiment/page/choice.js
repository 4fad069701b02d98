// The trial: two sentences, three levels of confidence on each side, one click or one key.

import { element } from "./dom.js";

const { ParameterType } = window.jsPsychModule;

const MARK_MS = 120; // the button that was chosen is marked so long
const STACKED = matchMedia("(max-width: 40rem)"); // as in the style sheet

/** Whether the sentences stand one above the other. */
export const isStacked = () => STACKED.matches;

/** The button, from 0, that a key stands for, or -1 if it is none of so many. */
export function placeOfKey(event, count) {
  if (event.ctrlKey || event.altKey || event.metaKey) return -1;
  // The code is the place on the keyboard: layouts may write other signs with the digits' keys.
  const [, digit] = /^(?:Digit|Numpad)([1-9])$/.exec(event.code) ?? [];
  const number = Number(digit ?? (/^[1-9]$/.test(event.key) && !event.code ? event.key : 0));
  return number <= count ? number - 1 : -1;
}

/**
 * What each side's buttons say, as choices from the first button to the last. Side by side they run
 * from sure of the left to sure of the right. One above the other both rows run from guess to certain:
 * the same place must not mean opposite things.
 */
function choicesOf(levels, stacked) {
  const rising = Array.from({ length: levels }, (_, place) => place + 1);
  const left = rising.map((level) => -level);
  return { left: stacked ? left : left.reverse(), right: rising };
}

/**
 * Build the two sentences with their buttons. `say` says texts of the study, `choose(choice, event,
 * button)` is told of clicks; without it the buttons are a picture.
 */
export function sides({ left, right, levels, direction, say }, choose = null) {
  const stacked = isStacked();
  const choices = choicesOf(levels, stacked);
  let number = 0;
  const side = (name, sentence) => {
    const title = say(`sentence_${stacked ? { left: "upper", right: "lower" }[name] : name}`);
    const label = element("h2", { class: "unseen", text: title });
    const text = element("p", { class: "sentence", dir: direction, text: sentence });
    const buttons = choices[name].map((choice) => {
      number += 1;
      const confidence = levels > 1 ? say(`confidence_${Math.abs(choice)}`) : say("choose_this");
      const attributes = {
        type: "button",
        class: "answer",
        dir: direction,
        disabled: !choose,
        "aria-label": `${title}, ${confidence}`,
        "aria-keyshortcuts": String(number),
        // Shown by the style sheet: screen readers say the label and the shortcut.
        "data-key": String(number),
        "data-choice": String(choice),
      };
      const button = element("button", attributes, element("span", { text: confidence }));
      if (choose) button.addEventListener("click", (event) => choose(choice, event, button));
      return button;
    });
    const group = { class: "answers", role: "group", "aria-label": title };
    return element("section", { class: "side" }, label, text, element("div", group, buttons));
  };
  const classes = `sides levels-${levels}`;
  // Left is left in every script, as keys and choices are; only the text runs its own way.
  return element("div", { class: classes, dir: "ltr" }, side("left", left), side("right", right));
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
      /** Levels of confidence for each sentence. */
      levels: { type: ParameterType.INT, default: 3 },
      /** Whether the label is shown, not only said. */
      labelled: { type: ParameterType.BOOL, default: false },
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
    if (trial.label) {
      const kind = trial.labelled ? "tag" : "unseen";
      heading.append(element("span", { class: kind, text: `${trial.label}. ` }));
    }
    heading.append(trial.say("trial_prompt"));

    const answer = (choice, event, button) => {
      const rt = event.timeStamp - shownAt;
      if (answered || rt < trial.minimum_rt_ms) return;
      answered = true;
      removeEventListener("keydown", onkey);
      STACKED.removeEventListener("change", draw);
      button.classList.add("chosen");
      const data = {
        choice,
        rt_ms: Math.round(rt),
        input: inputOf(event),
        answered_at: new Date().toISOString(),
        ...trial.presence().end(),
      };
      setTimeout(() => this.jsPsych.finishTrial(data), MARK_MS);
    };
    const onkey = (event) => {
      const buttons = display.querySelectorAll("button.answer");
      const button = buttons[placeOfKey(event, buttons.length)];
      // A key held down since the last trial is no answer to this one.
      if (!button || event.repeat) return;
      event.preventDefault();
      answer(Number(button.dataset.choice), event, button);
    };
    const screen = element("div", { class: "trial", "data-screen": "trial" });
    const draw = () => {
      const keys = { first: 1, last: 2 * trial.levels };
      screen.replaceChildren(
        heading,
        sides(trial, answer),
        element("p", { class: "hint", text: trial.say("key_hint", keys) }),
      );
    };
    draw();
    display.replaceChildren(screen);
    scrollTo(0, 0);
    heading.focus({ preventScroll: true });
    trial.presence().begin();
    addEventListener("keydown", onkey);
    STACKED.addEventListener("change", draw);
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
