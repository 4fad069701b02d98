-- Tables of a study's data file. Triggers refuse to change or delete rows of the raw log.

-- Format of the file, salt of the participants' hashes, name and response scale of the study.
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

-- Numbers of page visits and of participants who declined consent.
CREATE TABLE counts (name TEXT PRIMARY KEY, n INTEGER NOT NULL) STRICT;

-- Consent forms that participants agreed to.
CREATE TABLE consents (
    sha256 TEXT NOT NULL, version TEXT NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (sha256, version)
) STRICT;

-- Settings and texts with which sessions were shown, as JSON.
CREATE TABLE materials (sha256 TEXT PRIMARY KEY, content TEXT NOT NULL) STRICT;

-- Personal data. `claimed` is a recruiter's id that another participant already has; `parameters`
-- are URL query parameters as JSON.
CREATE TABLE participants (
    participant INTEGER PRIMARY KEY,
    recruiter_id TEXT UNIQUE,
    parameters TEXT NOT NULL,
    claimed TEXT
) STRICT;

-- `browsers` is the number of browsers that opened the session, `finished_by` the digest of the token
-- that ended it, and `materials` a digest.
CREATE TABLE sessions (
    session TEXT PRIMARY KEY,
    participant INTEGER NOT NULL UNIQUE REFERENCES participants,
    request TEXT UNIQUE,
    source TEXT NOT NULL,
    assignment INTEGER NOT NULL,
    group_number INTEGER NOT NULL,
    consent_version TEXT NOT NULL,
    consent_sha256 TEXT NOT NULL,
    started_at REAL NOT NULL,
    last_at REAL NOT NULL,
    finished_at REAL,
    outcome TEXT,
    released_at REAL,
    release_reason TEXT,
    materials TEXT,
    browsers INTEGER NOT NULL DEFAULT 1,
    finished_by TEXT
) STRICT;

-- `own` is 1 for tokens of the first browser of a session.
CREATE TABLE tokens (
    sha256 TEXT PRIMARY KEY, session TEXT NOT NULL REFERENCES sessions, made_at REAL NOT NULL,
    own INTEGER NOT NULL DEFAULT 1
) STRICT;

-- `digest` identifies the trials of an assignment.
CREATE TABLE assignments (
    assignment INTEGER PRIMARY KEY,
    group_number INTEGER NOT NULL,
    session TEXT UNIQUE REFERENCES sessions DEFERRABLE INITIALLY DEFERRED,
    digest TEXT NOT NULL
) STRICT;

-- Log of assignments. Assignment 0 stands for the whole study: closed, reopened.
CREATE TABLE allocations (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL, action TEXT NOT NULL, assignment INTEGER NOT NULL, session TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;

-- Raw log. `conflict` is 1 for a second, different answer to a trial.
CREATE TABLE answers (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL REFERENCES sessions,
    answer TEXT NOT NULL,
    trial TEXT NOT NULL,
    kind TEXT NOT NULL,
    choice INTEGER NOT NULL,
    rt_ms REAL NOT NULL,
    answered_at TEXT NOT NULL,
    input TEXT NOT NULL,
    focus_losses INTEGER NOT NULL,
    hidden_ms REAL NOT NULL,
    shown INTEGER NOT NULL,
    received_at REAL NOT NULL,
    late INTEGER NOT NULL,
    conflict INTEGER NOT NULL,
    detail TEXT NOT NULL DEFAULT '',
    UNIQUE (session, answer)
) STRICT;
CREATE UNIQUE INDEX one_answer ON answers (session, trial) WHERE conflict = 0;

-- Raw log.
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL REFERENCES sessions,
    event TEXT NOT NULL,
    kind TEXT NOT NULL,
    at TEXT NOT NULL,
    detail TEXT NOT NULL,
    received_at REAL NOT NULL,
    UNIQUE (session, event)
) STRICT;

-- Raw log. `response` is JSON.
CREATE TABLE responses (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL REFERENCES sessions,
    event TEXT NOT NULL,
    question TEXT NOT NULL,
    response TEXT NOT NULL,
    rt_ms REAL,
    at TEXT NOT NULL,
    received_at REAL NOT NULL,
    UNIQUE (session, event, question)
) STRICT;

-- Deleted participants.
CREATE TABLE forgotten (
    session_sha256 TEXT PRIMARY KEY, code TEXT NOT NULL, assignment INTEGER NOT NULL,
    outcome TEXT, n_answers INTEGER NOT NULL, at REAL NOT NULL, reason TEXT NOT NULL
) STRICT;

-- Raw log of an adaptive study. `trials` is a JSON list of [pair, sentence 1, sentence 2, propensity,
-- swapped sides]; an empty list means that the session gets no further trials.
CREATE TABLE blocks (
    number INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    issued_at REAL NOT NULL,
    trials TEXT NOT NULL,
    available INTEGER NOT NULL,
    version INTEGER NOT NULL,
    skipped_blocks TEXT NOT NULL,
    pool TEXT NOT NULL,
    pairs INTEGER NOT NULL,
    plan TEXT NOT NULL,
    seed INTEGER NOT NULL
) STRICT;
CREATE INDEX own_blocks ON blocks (session);
