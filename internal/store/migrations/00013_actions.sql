-- What the supervisor does to services, the plans that people approve, and which commits no agent made.

-- +goose Up

-- One run of an action. The intent is written before anything runs, and a run that was started is never repeated. A run that
-- a person asked for counts against its cooldown here; all others count in cooldown_actions.
CREATE TABLE action_runs (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    environment   TEXT    NOT NULL,
    service       TEXT    NOT NULL,
    action        TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    tier          INTEGER NOT NULL,
    cycle_id      INTEGER REFERENCES cycles (id),
    session_id    INTEGER REFERENCES sessions (id),
    person        TEXT    NOT NULL DEFAULT '',
    why           TEXT    NOT NULL DEFAULT '',
    approval_id   INTEGER REFERENCES approvals (id),
    step          INTEGER NOT NULL DEFAULT 0,
    undo_of       INTEGER REFERENCES action_runs (id),
    automatic     BOOLEAN NOT NULL DEFAULT FALSE,
    status        TEXT    NOT NULL,
    does          TEXT    NOT NULL DEFAULT '',
    digest        TEXT    NOT NULL DEFAULT '',
    branch        TEXT    NOT NULL DEFAULT '',
    commit_id     TEXT    NOT NULL DEFAULT '',
    version       TEXT    NOT NULL DEFAULT '',
    states_before TEXT,
    states_after  TEXT,
    output        TEXT,
    error         TEXT    NOT NULL DEFAULT '',
    owner         TEXT    NOT NULL DEFAULT '',
    term          INTEGER NOT NULL DEFAULT 0,
    counts_as     TEXT    NOT NULL DEFAULT '',
    counts        BOOLEAN NOT NULL DEFAULT FALSE,
    boot          TEXT    NOT NULL DEFAULT '',
    uptime_us     INTEGER NOT NULL DEFAULT 0,
    requested_at  TEXT    NOT NULL,
    started_at    TEXT,
    ended_at      TEXT
);
CREATE INDEX idx_action_runs_cycle ON action_runs (cycle_id, id);
CREATE INDEX idx_action_runs_session ON action_runs (session_id, id);
CREATE INDEX idx_action_runs_open ON action_runs (status, id) WHERE status IN ('requested', 'started');
CREATE INDEX idx_action_runs_counted ON action_runs (environment, service, counts_as, requested_at) WHERE counts;
-- A step of an approved plan runs once, and a run is undone once.
CREATE UNIQUE INDEX idx_action_runs_step ON action_runs (approval_id, step) WHERE approval_id IS NOT NULL AND undo_of IS NULL;
CREATE UNIQUE INDEX idx_action_runs_undo ON action_runs (undo_of) WHERE undo_of IS NOT NULL AND status IN ('requested', 'started', 'done');

-- The plan of a question, the hash of what a person sees of it, and the steps that were approved.
ALTER TABLE approvals ADD COLUMN plan TEXT;
ALTER TABLE approvals ADD COLUMN plan_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN plan_steps TEXT;

-- The commits of repositories that actions read, and who made them: operator, agent, or approved by a person.
CREATE TABLE repo_commits (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    host      TEXT    NOT NULL,
    repo      TEXT    NOT NULL,
    commit_id TEXT    NOT NULL,
    origin    TEXT    NOT NULL,
    person    TEXT    NOT NULL DEFAULT '',
    at        TEXT    NOT NULL
);
CREATE UNIQUE INDEX idx_repo_commits ON repo_commits (host, repo, commit_id);

-- The commit that was checked out last in a repository, and whether agents may have changed it since.
CREATE TABLE repo_heads (
    host      TEXT    NOT NULL,
    repo      TEXT    NOT NULL,
    commit_id TEXT    NOT NULL,
    agents    BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (host, repo)
);
