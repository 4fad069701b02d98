// What the page's modules pass to each other; for the type checker alone, browsers never see it.

import type { JsPsych } from "jspsych";

export interface Link {
  code?: string | null;
  redirect?: string | null;
}

/** How a session ended, as the last screen tells it. */
export interface End extends Link {
  outcome?: string;
  session?: string | null;
}

export interface Box {
  name: string;
  text: string;
  required: boolean;
}

export interface ConsentForm {
  version: string;
  sha256: string;
  text: string;
  warning: string;
  boxes: Box[];
}

/** What was agreed to, and which boxes were ticked. */
export interface Agreed {
  version: string;
  sha256: string;
}

export interface Settings {
  minimum_rt_ms: number;
  breaks: number[];
  time_limit_s: number | null;
  feedback: boolean;
  progress: "top" | "foot";
  n_trials: number;
  presentation: PresentationSettings;
  checks: Checks | null;
}

/** Options of the presentation, which `module` holds. */
export interface PresentationSettings {
  module: string;
  levels: number;
  points: number;
}

/** Failed attention checks, by digests of trial and choice: see `checks.js`. */
export interface Checks {
  failed: number[];
  salt: string;
  from: number;
  at_once: boolean;
}

export interface Recruiter {
  name: string;
  title: string;
  participant: string | null;
  required: boolean;
  /** What participants' ids may hold besides letters, digits, "-" and "_". */
  parameters: string[];
  declined: Link;
  full: Link;
  unsent: Link;
}

/** What is shown before consent. */
export interface Info {
  format: number;
  study: { name: string; title: string; lang: string; dir: "ltr" | "rtl" };
  texts: Record<string, string>;
  consent: ConsentForm;
  settings: Settings;
  recruiter: Recruiter | null;
  device: { minimum_width: number; touch: "allow" | "refuse" };
  materials: string;
  /** Of pages without a server of ours. */
  assignments: { assignment: number; group: number }[];
  links: Record<string, Link>;
  collect: { endpoint: string | null; experiment_id: string | null };
}

export interface Trial {
  trial: string;
  number: number;
  kind: "practice" | "trial";
  /** What is shown, by the names of the presentation. */
  shown: Record<string, string>;
  expected?: string | null;
}

export interface Question {
  name: string;
  prompt: string;
  kind: "text" | "choice" | "choices";
  when: "before" | "instructions" | "after";
  options: string[];
  required: boolean;
  rows: number;
  admit: string[];
  correct: string | null;
}

/** Everything for one session. */
export interface Bundle extends Info {
  session: string;
  assignment: number;
  group: number;
  /** Of the trials; the raw log carries it, so that an import knows whose answers they are. */
  digest: string;
  questions: Question[];
  responded: string[];
  practice: Trial[];
  trials: Trial[];
  /** Whether trials are still to come, which are chosen by the answers. */
  more?: boolean;
  answered: Record<string, object>; // by the ids of the trials
  elapsed_s: number;
  finished?: string | null;
}

/** Trials that come later than the bundle, and whether others come after them. */
export interface Further {
  trials: Trial[];
  more: boolean;
}

/** A session as the browser keeps it. */
export interface Kept {
  key: string;
  session: string;
  credentials: string | null;
  bundle: Bundle;
  began: number;
  stage: "instructions" | "trials";
  end: End | null;
}

export interface Row {
  id: string;
  session: string;
  order: number;
  kind: RowKind;
  body: Record<string, any>;
  state: "waiting" | "acknowledged" | "refused";
}

export type RowKind = "consent" | "answer" | "event";

/** What became of rows that were sent, by their ids; `over` ends the session. */
export interface Reply {
  acknowledged: string[];
  refused: string[];
  over?: boolean;
}

export interface Began {
  credentials: string | null;
  bundle: Bundle;
  consent?: Record<string, unknown>;
}

export interface Parameters {
  has(name: string): boolean;
  get(name: string): string | null | undefined;
}

/** A way for the data to go. */
export interface Transport {
  kind: string;
  /** Whether the receiver knows better than the browser which trials are answered. */
  knows: boolean;
  /** Whether rows of all kinds go together. */
  mixed: boolean;
  /** Whether data arrive anywhere by themselves. */
  collects: boolean;
  /** How many rows are sent together at least, and at most. */
  batch: number;
  largest: number;
  parameters: Parameters;
  participant: string | null;
  identity: string;
  unsent: Link;
  open(): Promise<Info>;
  check(): Promise<void>;
  start(consent: Agreed): Promise<Began>;
  resume(session: Kept): Promise<Bundle>;
  /** The trials after number `after`; of receivers whose bundles can have `more`. */
  next?(session: Kept, after: number): Promise<Further>;
  send(session: Kept, rows: Row[]): Promise<Reply>;
  finish(session: Kept, ending: string | null): Promise<End>;
  decline(): Promise<Link>;
  line(session: Kept, row: Row): Record<string, unknown>;
}

/** An answer as a presentation gives it. */
export interface Answered {
  choice: number;
  rt_ms: number;
  input?: string;
  answered_at?: string;
  detail?: unknown;
}

export interface Answer extends Required<Answered> {
  focus_losses: number;
  hidden_ms: number;
}

export type Say = (key: string, values?: Record<string, unknown>) => string;

/** What a presentation is given besides the trial. */
export interface Tools {
  say: Say;
  settings: Settings;
  direction: "ltr" | "rtl";
  /** What screen readers say before the question, such as the number of the trial. */
  label: string;
  /** Whether the label is shown, not only said. */
  labelled: boolean;
  /** A jsPsych plugin whose parameter `show(display)` resolves with an `Answered`. */
  Screen: any;
}

/** What a module of a presentation exports as `default`. */
export interface Presentation {
  /** A trial for jsPsych, one node, whose data are an `Answered`. */
  node(trial: Trial, tools: Tools): Record<string, any>;
  /** Something to look at in the instructions. */
  picture?(tools: Tools): Element | null;
}

export interface Jatos {
  studyResultId: string | number;
  urlQueryParameters?: Record<string, string>;
  onLoad(done: (value: unknown) => void): void;
  appendResultData(data: string): Promise<void>;
  batchSession: {
    get(name: string): number | undefined;
    set(name: string, value: number): Promise<void>;
  };
  endStudyWithoutRedirect?(successful: boolean, message?: string): Promise<void>;
  endStudyAjax?(successful: boolean, message?: string): Promise<void>;
}

declare global {
  interface Window {
    initJsPsych(options: Record<string, unknown>): JsPsych;
    jsPsychModule: typeof import("jspsych");
    jsPsychSurveyText: any;
    jsPsychSurveyMultiChoice: any;
    jsPsychSurveyMultiSelect: any;
    jatos: Jatos;
  }
}
