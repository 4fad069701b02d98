// Ten coins are divided between two sentences: one click or one key.

import { element } from "../../dom.js";
import { answerButton, answerOf, heading, keyHint } from "../../presentations/common.js";

const CHOICES = [-4, -3, -2, -1, 1, 2, 3, 4];

function divided(shown, { direction }, choose) {
  const sentences = ["left", "right"].map((side) => {
    return element("p", { class: "sentence", dir: direction, text: shown[side] });
  });
  const buttons = CHOICES.map((choice, place) => {
    const text = `${5 - choice} : ${5 + choice}`;
    const button = { choice, number: place + 1, text, label: text, direction: "ltr" };
    return answerButton(button, choose);
  });
  return element("div", { class: "rated" }, sentences, element("div", { class: "answers" }, buttons));
}

export default {
  node: (trial, tools) => ({
    type: tools.Screen,
    show: async (display) => {
      const data = await answerOf(display, tools, heading(tools), (choose) => [
        divided(trial.shown, tools, choose),
        keyHint(tools, CHOICES.length),
      ]);
      return { ...data, detail: { coins_left: 5 - data.choice } };
    },
  }),
  picture: (tools) => divided({ left: "…", right: "…" }, tools, null),
};
