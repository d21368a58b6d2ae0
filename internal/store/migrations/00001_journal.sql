-- Times are text, UTC, of one width, so that they sort. A figure that was not reported is NULL.

-- +goose Up

CREATE TABLE hosts (
    host          TEXT    NOT NULL PRIMARY KEY,
    term          INTEGER NOT NULL,
    registered_at TEXT    NOT NULL,
    expires_at    TEXT
);

CREATE TABLE store_state (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE cycles (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    environment         TEXT    NOT NULL,
    "trigger"           TEXT    NOT NULL,
    status              TEXT    NOT NULL,
    reason              TEXT    NOT NULL DEFAULT '',
    policy              TEXT,
    options             TEXT    NOT NULL DEFAULT '{}',
    prompt              TEXT    NOT NULL DEFAULT '',
    wake_at             TEXT,
    wake_seq            INTEGER NOT NULL DEFAULT 0,
    cancel_requested_at TEXT,
    cancel_reason       TEXT    NOT NULL DEFAULT '',
    owner               TEXT,
    term                INTEGER NOT NULL DEFAULT 0,
    result              TEXT,
    created_at          TEXT    NOT NULL,
    started_at          TEXT,
    ended_at            TEXT
);
-- The slot: at most one running cycle per environment.
CREATE UNIQUE INDEX idx_cycles_running ON cycles (environment) WHERE status = 'running';
CREATE INDEX idx_cycles_open ON cycles (id) WHERE ended_at IS NULL;
CREATE INDEX idx_cycles_status ON cycles (status, id);
CREATE INDEX idx_cycles_environment ON cycles (environment, id);
CREATE INDEX idx_cycles_environment_ended ON cycles (environment, ended_at);
CREATE INDEX idx_cycles_ended ON cycles (ended_at);

-- The long columns stand last, so that reading the others does not walk over them.
CREATE TABLE sessions (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    cycle_id            INTEGER NOT NULL REFERENCES cycles (id),
    environment         TEXT    NOT NULL,
    parent_session_id   INTEGER REFERENCES sessions (id),
    retry_of_session_id INTEGER REFERENCES sessions (id),
    attempt             INTEGER NOT NULL,
    tier                INTEGER NOT NULL,
    handler             TEXT    NOT NULL,
    family              TEXT    NOT NULL DEFAULT '',
    agent               TEXT    NOT NULL DEFAULT '',
    model               TEXT    NOT NULL DEFAULT '',
    key                 TEXT    NOT NULL UNIQUE,
    planned_session_id  TEXT,
    session_id          TEXT,
    status              TEXT    NOT NULL,
    outcome             TEXT,
    failure             TEXT,
    error               TEXT,
    stop_cause          TEXT,
    context_mode        TEXT    NOT NULL,
    recovery_level      INTEGER NOT NULL DEFAULT 0,
    context_tokens      INTEGER,
    context_window      INTEGER,
    cost_usd            DOUBLE PRECISION,
    reported_usd        DOUBLE PRECISION,
    num_turns           INTEGER,
    duration_ms         INTEGER,
    input_tokens        INTEGER,
    output_tokens       INTEGER,
    cache_read_tokens   INTEGER,
    cache_write_tokens  INTEGER,
    exit_code           INTEGER,
    cli_version         TEXT,
    pid                 INTEGER,
    process_started     TEXT,
    structured          BOOLEAN NOT NULL DEFAULT FALSE,
    open_tool           TEXT,
    conversation_path   TEXT,
    conversation_size   INTEGER,
    conversation_sha    TEXT,
    owner               TEXT,
    transcript_seq      INTEGER NOT NULL DEFAULT 0,
    transcript_lines    INTEGER NOT NULL DEFAULT 0,
    created_at          TEXT    NOT NULL,
    started_at          TEXT,
    ended_at            TEXT,
    handoff_error       TEXT,
    outcome_json        TEXT,
    handoff_json        TEXT,
    UNIQUE (cycle_id, tier, attempt)
);
CREATE INDEX idx_sessions_parent ON sessions (parent_session_id);
CREATE INDEX idx_sessions_session_id ON sessions (session_id);
CREATE INDEX idx_sessions_status ON sessions (status, id);
CREATE INDEX idx_sessions_tier ON sessions (tier, id);
CREATE INDEX idx_sessions_window ON sessions (model, id, context_window) WHERE context_window IS NOT NULL;
CREATE INDEX idx_sessions_environment ON sessions (environment, id);
CREATE INDEX idx_sessions_cost ON sessions (environment, ended_at, cycle_id, cost_usd) WHERE ended_at IS NOT NULL;
CREATE INDEX idx_sessions_ended ON sessions (ended_at, cost_usd) WHERE ended_at IS NOT NULL;

-- No foreign key: the session is looked up once per batch, not once per line. Rows stand in the order in which they come,
-- with the key beside them: kept in the key's own tree, a line over a quarter page would take a page of its own.
CREATE TABLE transcript (
    session_id INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    at         TEXT    NOT NULL,
    line       TEXT    NOT NULL,
    PRIMARY KEY (session_id, seq)
);

CREATE TABLE escalations (
    id                       INTEGER PRIMARY KEY AUTOINCREMENT,
    cycle_id                 INTEGER NOT NULL REFERENCES cycles (id),
    session_id               INTEGER REFERENCES sessions (id),
    source_handler           TEXT    NOT NULL,
    target_handler           TEXT    NOT NULL,
    reason                   TEXT    NOT NULL,
    proposed                 TEXT    NOT NULL DEFAULT '',
    depth                    INTEGER NOT NULL,
    max_depth                INTEGER NOT NULL,
    target_validated         BOOLEAN NOT NULL,
    self_escalation_rejected BOOLEAN NOT NULL,
    process_mode             TEXT    NOT NULL,
    manager_present          BOOLEAN NOT NULL,
    path                     TEXT    NOT NULL,
    decision                 TEXT    NOT NULL,
    check_name               TEXT    NOT NULL DEFAULT '',
    policy                   TEXT,
    at                       TEXT    NOT NULL
);
CREATE INDEX idx_escalations_cycle ON escalations (cycle_id, id);
CREATE INDEX idx_escalations_session ON escalations (session_id);

CREATE TABLE recoveries (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    cycle_id        INTEGER NOT NULL REFERENCES cycles (id),
    session_id      INTEGER REFERENCES sessions (id),
    tier            INTEGER NOT NULL,
    level           INTEGER NOT NULL,
    action          TEXT    NOT NULL,
    error_type      TEXT    NOT NULL,
    previous_levels TEXT    NOT NULL DEFAULT '[]',
    entered_at      TEXT    NOT NULL,
    not_before      TEXT,
    deadline        TEXT,
    reason          TEXT    NOT NULL
);
CREATE INDEX idx_recoveries_cycle ON recoveries (cycle_id, id);

CREATE TABLE events (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    at          TEXT    NOT NULL,
    cycle_id    INTEGER REFERENCES cycles (id),
    session_id  INTEGER REFERENCES sessions (id),
    environment TEXT    NOT NULL DEFAULT '',
    level       TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    service     TEXT    NOT NULL DEFAULT '',
    message     TEXT    NOT NULL
);
CREATE INDEX idx_events_level ON events (level, id);
CREATE INDEX idx_events_cycle ON events (cycle_id, id);
CREATE INDEX idx_events_session ON events (session_id, id);

CREATE TABLE notifications (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    cycle_id   INTEGER REFERENCES cycles (id),
    kind       TEXT    NOT NULL,
    level      TEXT    NOT NULL,
    title      TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    next_at    TEXT    NOT NULL,
    error      TEXT    NOT NULL DEFAULT '',
    created_at TEXT    NOT NULL,
    sent_at    TEXT
);
CREATE INDEX idx_notifications_due ON notifications (next_at, id) WHERE status = 'pending';
CREATE INDEX idx_notifications_cycle ON notifications (cycle_id);

CREATE TABLE checks (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    at               TEXT    NOT NULL,
    environment      TEXT    NOT NULL,
    cycle_id         INTEGER REFERENCES cycles (id),
    after_session_id INTEGER REFERENCES sessions (id),
    purpose          TEXT    NOT NULL,
    service          TEXT    NOT NULL,
    probe            TEXT    NOT NULL,
    type             TEXT    NOT NULL,
    status           TEXT    NOT NULL,
    error            TEXT    NOT NULL DEFAULT '',
    response_time_ms INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX idx_checks_latest ON checks (environment, service, probe, id DESC);
CREATE INDEX idx_checks_cycle ON checks (cycle_id, id);

CREATE TABLE verifications (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    cycle_id         INTEGER NOT NULL REFERENCES cycles (id),
    session_id       INTEGER REFERENCES sessions (id),
    judge_session_id INTEGER REFERENCES sessions (id),
    verdict          TEXT    NOT NULL,
    confidence       DOUBLE PRECISION,
    total_score      INTEGER,
    dimensions       TEXT,
    reasoning        TEXT    NOT NULL DEFAULT '',
    failure_reasons  TEXT    NOT NULL DEFAULT '[]',
    recommendations  TEXT    NOT NULL DEFAULT '[]',
    at               TEXT    NOT NULL
);
CREATE INDEX idx_verifications_cycle ON verifications (cycle_id, id);

CREATE TABLE approvals (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    cycle_id     INTEGER NOT NULL REFERENCES cycles (id),
    session_id   INTEGER REFERENCES sessions (id),
    tier         INTEGER NOT NULL,
    handler      TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    reason       TEXT    NOT NULL DEFAULT '',
    requested_at TEXT    NOT NULL,
    expires_at   TEXT,
    answered_at  TEXT,
    answered_by  TEXT    NOT NULL DEFAULT '',
    answer       TEXT    NOT NULL DEFAULT ''
);
CREATE INDEX idx_approvals_cycle ON approvals (cycle_id, id);
CREATE INDEX idx_approvals_status ON approvals (status, id);

CREATE TABLE incidents (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    environment     TEXT    NOT NULL,
    service         TEXT    NOT NULL DEFAULT '',
    title           TEXT    NOT NULL,
    level           TEXT    NOT NULL,
    status          TEXT    NOT NULL,
    occurrences     INTEGER NOT NULL DEFAULT 1,
    first_cycle_id  INTEGER REFERENCES cycles (id),
    last_cycle_id   INTEGER REFERENCES cycles (id),
    opened_at       TEXT    NOT NULL,
    updated_at      TEXT    NOT NULL,
    acknowledged_at TEXT,
    acknowledged_by TEXT    NOT NULL DEFAULT '',
    snoozed_until   TEXT,
    resolved_at     TEXT,
    resolution      TEXT    NOT NULL DEFAULT ''
);
CREATE INDEX idx_incidents_status ON incidents (status, id);
CREATE INDEX idx_incidents_service ON incidents (environment, service, id);

CREATE TABLE guard_decisions (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    at          TEXT    NOT NULL,
    cycle_id    INTEGER NOT NULL REFERENCES cycles (id),
    session_id  INTEGER NOT NULL REFERENCES sessions (id),
    tier        INTEGER NOT NULL,
    gate        TEXT    NOT NULL,
    tool_use_id TEXT    NOT NULL DEFAULT '',
    tool        TEXT    NOT NULL,
    digest      TEXT    NOT NULL DEFAULT '',
    verdict     TEXT    NOT NULL,
    rule        TEXT    NOT NULL DEFAULT '',
    mutating    BOOLEAN NOT NULL DEFAULT FALSE,
    took_us     INTEGER NOT NULL DEFAULT 0,
    reason      TEXT    NOT NULL DEFAULT '',
    input       TEXT    NOT NULL
);
CREATE INDEX idx_guard_decisions_session ON guard_decisions (session_id, id);
CREATE INDEX idx_guard_decisions_tool_use ON guard_decisions (session_id, tool_use_id);

-- What was released or cleared no longer counts. Beside the time stands how long the machine was up, because the time of
-- day can be set.
CREATE TABLE cooldown_actions (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    environment TEXT    NOT NULL,
    service     TEXT    NOT NULL,
    project     TEXT    NOT NULL DEFAULT '',
    action      TEXT    NOT NULL,
    half        TEXT    NOT NULL DEFAULT '',
    cycle_id    INTEGER NOT NULL REFERENCES cycles (id),
    session_id  INTEGER NOT NULL REFERENCES sessions (id),
    tool_use_id TEXT    NOT NULL DEFAULT '',
    status      TEXT    NOT NULL,
    counts      BOOLEAN NOT NULL,
    covered_by  INTEGER REFERENCES cooldown_actions (id),
    closed_by   INTEGER REFERENCES cooldown_actions (id),
    reserved_at TEXT    NOT NULL,
    boot        TEXT    NOT NULL DEFAULT '',
    uptime_us   INTEGER NOT NULL DEFAULT 0,
    used_at     TEXT,
    cleared_at  TEXT
);
CREATE INDEX idx_cooldown_actions_counted ON cooldown_actions (environment, service, action, reserved_at) WHERE counts;
CREATE INDEX idx_cooldown_actions_session ON cooldown_actions (session_id, service);

CREATE TABLE memories (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    environment TEXT    NOT NULL DEFAULT '',
    category    TEXT    NOT NULL,
    service     TEXT    NOT NULL DEFAULT '',
    observation TEXT    NOT NULL,
    confidence  DOUBLE PRECISION,
    session_id  INTEGER REFERENCES sessions (id),
    created_at  TEXT    NOT NULL,
    updated_at  TEXT    NOT NULL,
    used_at     TEXT
);
CREATE INDEX idx_memories_service ON memories (environment, service, id);

CREATE TABLE silences (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    environment TEXT    NOT NULL DEFAULT '',
    service     TEXT    NOT NULL DEFAULT '',
    reason      TEXT    NOT NULL DEFAULT '',
    created_by  TEXT    NOT NULL DEFAULT '',
    created_at  TEXT    NOT NULL,
    starts_at   TEXT    NOT NULL,
    ends_at     TEXT    NOT NULL
);
CREATE INDEX idx_silences_ends ON silences (ends_at);
