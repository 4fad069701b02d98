// One sentence, rated on a scale of so many points: one click or one key.

import { element } from "../dom.js";
import { answerButton, answerOf, heading, keyHint } from "./common.js";

/**
 * The sentence and its scale, which runs as its script does.
 * @param {string} sentence
 * @param {import("../types").Tools} tools
 * @param {((choice: number, event: UIEvent, button: Element) => void) | null} choose
 */
function rated(sentence, { say, settings, direction }, choose) {
  const { points } = settings.presentation;
  const [low, high] = [say("rating_low"), say("rating_high")];
  const buttons = Array.from({ length: points }, (_, place) => {
    const number = place + 1;
    const end = { 1: low, [points]: high }[number];
    const label = end ? `${number}, ${end}` : String(number);
    return answerButton({ choice: number, number, text: String(number), label, direction }, choose);
  });
  const ends = [low, high].map((text) => element("span", { text }));
  return element(
    "div",
    { class: "rated", dir: direction },
    element("p", { class: "sentence", text: sentence }),
    element("div", { class: `answers points points-${points}`, role: "group" }, buttons),
    element("p", { class: "ends", "aria-hidden": "true" }, ends),
  );
}

/** @type {import("../types").Presentation} */
export default {
  node: (trial, tools) => ({
    type: tools.Screen,
    show: (/** @type {Element} */ display) =>
      answerOf(display, tools, heading(tools), (choose) => [
        rated(trial.shown.sentence, tools, choose),
        keyHint(tools, tools.settings.presentation.points),
      ]),
  }),
  picture: (tools) => rated("…", tools, null),
};
