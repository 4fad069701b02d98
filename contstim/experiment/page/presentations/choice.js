// Two sentences, and levels of confidence for each: one click or one key.

import { element } from "../dom.js";
import { answerButton, answerOf, following, heading, isStacked, keyHint } from "./common.js";

/**
 * @typedef {import("../types").Tools} Tools
 * @typedef {"left" | "right"} Side
 */

/**
 * What each side's buttons say, as choices from the first button to the last. Side by side they run
 * from sure of the left to sure of the right. One above the other both rows run from guess to certain:
 * the same place must not mean opposite things.
 * @param {number} levels
 * @param {boolean} stacked
 * @returns {Record<Side, number[]>}
 */
function choicesOf(levels, stacked) {
  const rising = Array.from({ length: levels }, (_, place) => place + 1);
  const left = rising.map((level) => -level);
  return { left: stacked ? left : left.reverse(), right: rising };
}

/**
 * The two sentences with their buttons; without `choose` these are a picture.
 * @param {Record<string, string>} shown
 * @param {Tools} tools
 * @param {((choice: number, event: UIEvent, button: Element) => void) | null} choose
 */
function sides(shown, { say, settings, direction }, choose) {
  const { levels } = settings.presentation;
  const stacked = isStacked();
  const choices = choicesOf(levels, stacked);
  let number = 0;
  const side = (/** @type {Side} */ name) => {
    const title = say(`sentence_${stacked ? { left: "upper", right: "lower" }[name] : name}`);
    const label = element("h2", { class: "unseen", text: title });
    const text = element("p", { class: "sentence", dir: direction, text: shown[name] });
    const buttons = choices[name].map((choice) => {
      number += 1;
      const confidence = levels > 1 ? say(`confidence_${Math.abs(choice)}`) : say("choose_this");
      const button = { choice, number, direction, text: confidence };
      return answerButton({ ...button, label: `${title}, ${confidence}` }, choose);
    });
    const group = { class: "answers", role: "group", "aria-label": title };
    return element("section", { class: "side" }, label, text, element("div", group, buttons));
  };
  const classes = `sides levels-${levels}`;
  // Left is left in every script, as keys and choices are; only the text runs its own way.
  return element("div", { class: classes, dir: "ltr" }, side("left"), side("right"));
}

/** @type {import("../types").Presentation} */
export default {
  node: (trial, tools) => ({
    type: tools.Screen,
    show: (/** @type {Element} */ display) =>
      answerOf(display, tools, heading(tools), (choose) => [
        sides(trial.shown, tools, choose),
        keyHint(tools, 2 * tools.settings.presentation.levels),
      ]),
  }),
  picture: (tools) => following(() => sides({ left: "…", right: "…" }, tools, null)),
};
