// Self-paced reading with a moving window (Just, Carpenter & Woolley, 1982): every press uncovers the
// next word and covers the last one; then, where the trial has one, a question of yes or no.

import { element } from "../dom.js";
import { answerButton, answerOf, heading, inputOf, keyHint, seen } from "./common.js";

/** @typedef {import("../types").Tools} Tools */

/**
 * The regions that are uncovered one by one: what stands between bars where there are any, else words.
 * @param {string} sentence
 */
export function regions(sentence) {
  const parts = sentence.includes("|") ? sentence.split("|") : sentence.split(/ +/);
  return parts.map((part) => part.trim()).filter((part) => part);
}

/**
 * The covered sentence: every region keeps its place, its text is not to be seen or marked.
 * @param {string} sentence
 * @param {string} direction
 */
function covered(sentence, direction) {
  const spaced = !sentence.includes("|") || /\s\||\|\s/.test(sentence);
  const words = regions(sentence).map((text) => {
    return element("span", { class: "word" }, element("span", { text }));
  });
  const text = element("p", { class: "sentence reading", dir: direction });
  for (const word of words) text.append(word, spaced ? " " : "");
  return { text, words };
}

/**
 * Read a sentence; resolves with the milliseconds for which each region was uncovered.
 * @param {Element} display
 * @param {string} sentence
 * @param {Tools} tools
 * @returns {Promise<{rt_ms: number[], input: string}>}
 */
function read(display, sentence, tools) {
  return new Promise((resolve) => {
    const { text, words } = covered(sentence, tools.direction);
    const title = heading(tools);
    const next = element("button", { type: "button", class: "next", text: tools.say("reading_next") });
    const screen = element("div", { class: "trial", "data-screen": "trial" }, title, text, next);
    /** @type {number[]} */
    const times = [];
    let place = -1;
    let shownAt = seen();
    const go = (/** @type {UIEvent} */ event) => {
      if (place >= 0) {
        // Two presses in one frame: nobody has seen the word.
        if (event.timeStamp <= shownAt()) return;
        times.push(Math.round(10 * (event.timeStamp - shownAt())) / 10);
        words[place].classList.remove("open");
      }
      place += 1;
      if (place === words.length) {
        removeEventListener("keydown", onkey);
        resolve({ rt_ms: times, input: inputOf(event) });
        return;
      }
      words[place].classList.add("open");
      shownAt = seen();
    };
    const onkey = (/** @type {KeyboardEvent} */ event) => {
      if (!screen.isConnected) return removeEventListener("keydown", onkey); // jsPsych was stopped
      if (event.code !== "Space") return;
      event.preventDefault(); // nor is the button clicked that has the focus
      if (!event.repeat) go(event);
    };
    next.addEventListener("click", go);
    display.replaceChildren(screen);
    scrollTo(0, 0);
    title.focus({ preventScroll: true });
    addEventListener("keydown", onkey);
  });
}

/**
 * @param {Element} display
 * @param {import("../types").Trial} trial
 * @param {Tools} tools
 * @returns {Promise<import("../types").Answered>}
 */
async function show(display, { shown }, tools) {
  const { rt_ms: times, input } = await read(display, shown.sentence, tools);
  const whole = Math.round(times.reduce((sum, one) => sum + one, 0));
  const detail = { words: regions(shown.sentence), rt_ms: times };
  if (!shown.question) {
    return { choice: 0, rt_ms: whole, input, answered_at: new Date().toISOString(), detail };
  }
  const { direction, say } = tools;
  const given = await answerOf(display, tools, heading(tools, shown.question), (choose) => [
    element(
      "div",
      { class: "answers question", role: "group", dir: direction },
      ["question_yes", "question_no"].map((key, place) => {
        const text = say(key);
        const number = place + 1;
        return answerButton({ choice: number, number, text, label: text, direction }, choose);
      }),
    ),
    keyHint(tools, 2),
  ]);
  return { ...given, rt_ms: whole, detail: { ...detail, question_rt_ms: given.rt_ms } };
}

/** @type {import("../types").Presentation} */
export default {
  node: (trial, tools) => ({
    type: tools.Screen,
    show: (/** @type {Element} */ display) => show(display, trial, tools),
  }),
  picture: ({ say, direction }) => {
    const { text, words } = covered(say("reading_example"), direction);
    words[Math.min(1, words.length - 1)]?.classList.add("open");
    return element("div", {}, text);
  },
};
