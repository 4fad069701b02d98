// Questions before and after the trials, on jsPsych's own plugins.

/** @typedef {import("./types").Question} Question */

const MAX_RESPONSE_LENGTH = 5000; // characters that are taken of a text

const PLUGINS = {
  text: () => window.jsPsychSurveyText,
  choice: () => window.jsPsychSurveyMultiChoice,
  choices: () => window.jsPsychSurveyMultiSelect,
};

/**
 * The plugins take HTML; what comes from a study is text.
 * @param {string} text
 */
function escaped(text) {
  /** @type {Record<string, string>} */
  const signs = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (sign) => signs[sign]);
}

/**
 * Questions of one kind that follow each other, screen by screen.
 * @param {Question[]} questions
 */
export function screensOf(questions) {
  /** @type {Question[][]} */
  const screens = [];
  for (const question of questions) {
    const last = screens.at(-1);
    if (last && last[0].kind === question.kind) last.push(question);
    else screens.push([question]);
  }
  return screens;
}

/**
 * Whether who answers so cannot take part.
 * @param {Question[]} questions
 * @param {Record<string, unknown>} responses
 */
export function screensOut(questions, responses) {
  return questions.some(
    (one) => one.admit.length > 0 && !one.admit.includes(String(responses[one.name])),
  );
}

/**
 * A screen of questions for jsPsych.
 * @param {Question[]} questions
 * @param {object} hooks
 * @param {import("./types").Say} hooks.say
 * @param {() => void} hooks.onshow
 * @param {() => void} hooks.again says that something was not understood
 * @param {(responses: Record<string, unknown>, rt: number) => Promise<void>} hooks.onresponses
 *   returns when they are kept
 */
export function form(questions, hooks) {
  let right = true;
  const node = {
    type: PLUGINS[questions[0].kind](),
    preamble: "",
    button_label: escaped(hooks.say("continue_button")),
    required_message: hooks.say("form_required"),
    questions: questions.map((one) => ({
      name: one.name,
      prompt: escaped(one.prompt),
      options: one.options.map(escaped),
      required: one.required,
      rows: one.rows,
      placeholder: "",
    })),
    on_start: () => hooks.onshow(),
    on_load: () => label(hooks.say("form_title")),
    on_finish: async (/** @type {any} */ { response, rt }) => {
      if (!response) return; // jsPsych was stopped
      right = questions.every((one) => one.correct === null || response[one.name] === one.correct);
      if (right) await hooks.onresponses(response, rt);
      else hooks.again();
    },
  };
  return { timeline: [node], loop_function: () => !right };
}

/**
 * Tell screen readers which words belong to which field; the plugins do not.
 * @param {string} title
 */
function label(title) {
  const page = /** @type {HTMLElement} */ (document.getElementById("page"));
  const heading = document.createElement("h1");
  heading.textContent = title;
  heading.tabIndex = -1;
  const found = /** @type {HTMLFormElement} */ (page.querySelector("form"));
  found.classList.add("screen");
  found.dataset.screen = "form";
  found.prepend(heading);
  for (const [number, question] of page.querySelectorAll("[class*=-question]").entries()) {
    const prompt = /** @type {HTMLElement} */ (question.querySelector("p"));
    prompt.id = `question-${number}`;
    const field = /** @type {HTMLInputElement | HTMLTextAreaElement | null} */ (
      question.querySelector("input[type=text], textarea")
    );
    if (field) field.maxLength = MAX_RESPONSE_LENGTH;
    if (!field) question.setAttribute("role", "group");
    (field ?? question).setAttribute("aria-labelledby", prompt.id);
  }
  scrollTo(0, 0);
  heading.focus({ preventScroll: true });
}
