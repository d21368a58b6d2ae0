-- The schema of 0.1.0, written for SQLite; words that PostgreSQL has others for are replaced when it is applied there. Times are text, UTC,
-- of one width, so that they sort. A figure that was not reported is NULL.

-- +goose Up

-- Marks the database as ours, see applicationID in package db. On PostgreSQL this makes the table meta.
PRAGMA application_id = 1668050800;

-- What is stored about the database itself: by which version it was written, and whether a process uses it.
CREATE TABLE store_state (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

------------------------------------------------------------------------------------------------------------------------------------------
-- Hosts
------------------------------------------------------------------------------------------------------------------------------------------

-- The supervisors on this database: who is alive, and what each may do.
CREATE TABLE hosts (
    host           TEXT    NOT NULL PRIMARY KEY,
    identity       TEXT    NOT NULL DEFAULT '',
    version        TEXT    NOT NULL DEFAULT '',
    labels         TEXT    NOT NULL DEFAULT '[]',
    environments   TEXT    NOT NULL DEFAULT '[]',
    term           INTEGER NOT NULL,
    draining       BOOLEAN NOT NULL DEFAULT FALSE,
    -- How far its clock was ahead of the database's when it last renewed its lease.
    clock_ahead_ms INTEGER NOT NULL DEFAULT 0,
    registered_at  TEXT    NOT NULL,
    seen_at        TEXT,
    expires_at     TEXT
);

-- Who looks after what must be done by one host only.
CREATE TABLE duties (
    name       TEXT    NOT NULL PRIMARY KEY,
    host       TEXT    NOT NULL,
    term       INTEGER NOT NULL,
    expires_at TEXT    NOT NULL
);

------------------------------------------------------------------------------------------------------------------------------------------
-- Journal: what agents did, and why
------------------------------------------------------------------------------------------------------------------------------------------

-- One attempt to find out what is wrong and to repair it.
CREATE TABLE cycles (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    environment         TEXT    NOT NULL,
    "trigger"           TEXT    NOT NULL,
    status              TEXT    NOT NULL,
    -- What is wrong, in one line; empty until known.
    problem             TEXT    NOT NULL DEFAULT '',
    reason              TEXT    NOT NULL DEFAULT '',
    -- Whether somebody confirmed that it is resolved; NULL where nothing was claimed.
    verified            BOOLEAN,
    -- Who did: probe, judge, human, plan, reflex or none; empty where nothing was claimed.
    verified_by         TEXT    NOT NULL DEFAULT '',
    -- When a check showed that the repair did not hold.
    refuted_at          TEXT,
    wake_at             TEXT,
    -- The number of the last wake-up, and of the last one that the worker saw: an answer that came after it must not be slept over.
    wake_seq            INTEGER NOT NULL DEFAULT 0,
    seen_seq            INTEGER NOT NULL DEFAULT 0,
    cancel_requested_at TEXT,
    cancel_reason       TEXT    NOT NULL DEFAULT '',
    owner               TEXT,
    term                INTEGER NOT NULL DEFAULT 0,
    created_at          TEXT    NOT NULL,
    started_at          TEXT,
    ended_at            TEXT,
    policy              TEXT,
    options             TEXT    NOT NULL DEFAULT '{}',
    -- What it was started for, as JSON: certain services, or open for a look. Decisions narrow it, see escalations.services.
    charge              TEXT    NOT NULL DEFAULT '{"open":true}',
    prompt              TEXT    NOT NULL DEFAULT '',
    -- The same request with the same key gives the same cycle.
    request_key         TEXT,
    result              TEXT,
    -- The services of the policy, which can be very many: lists do not read them.
    inventory           TEXT
);
CREATE UNIQUE INDEX idx_cycles_request ON cycles (request_key) WHERE request_key IS NOT NULL;
-- The slot: at most one running cycle per environment.
CREATE UNIQUE INDEX idx_cycles_running ON cycles (environment) WHERE status = 'running';
CREATE INDEX idx_cycles_open ON cycles (id) WHERE ended_at IS NULL;
CREATE INDEX idx_cycles_status ON cycles (status, id);
CREATE INDEX idx_cycles_environment ON cycles (environment, id);
CREATE INDEX idx_cycles_environment_ended ON cycles (environment, ended_at);
CREATE INDEX idx_cycles_ended ON cycles (ended_at);
-- What the engine reads before it starts cycles does not grow with the queue.
CREATE INDEX idx_cycles_queued ON cycles (environment, id) WHERE status = 'queued' AND wake_at IS NULL;
CREATE INDEX idx_cycles_due ON cycles (id) WHERE ended_at IS NULL AND (status = 'running' OR wake_at IS NOT NULL OR cancel_requested_at IS NOT NULL);

-- One run of an agent. The long columns stand last, so that reading the others does not walk over them.
CREATE TABLE sessions (
    id                    INTEGER PRIMARY KEY AUTOINCREMENT,
    cycle_id              INTEGER NOT NULL REFERENCES cycles (id),
    environment           TEXT    NOT NULL,
    parent_session_id     INTEGER REFERENCES sessions (id),
    retry_of_session_id   INTEGER REFERENCES sessions (id),
    attempt               INTEGER NOT NULL,
    tier                  INTEGER NOT NULL,
    role                  TEXT    NOT NULL DEFAULT 'work',
    permissions           INTEGER NOT NULL,
    handler               TEXT    NOT NULL,
    family                TEXT    NOT NULL DEFAULT '',
    agent                 TEXT    NOT NULL DEFAULT '',
    model                 TEXT    NOT NULL DEFAULT '',
    key                   TEXT    NOT NULL UNIQUE,
    planned_session_id    TEXT,
    session_id            TEXT,
    status                TEXT    NOT NULL,
    outcome               TEXT,
    failure               TEXT,
    error                 TEXT,
    stop_cause            TEXT,
    -- What the trial of its walls found to stand around it.
    walls                 TEXT,
    api_status            INTEGER,
    retry_after_ms        INTEGER,
    -- The call that a looping session repeated, and how often.
    loop_call             TEXT,
    loop_count            INTEGER NOT NULL DEFAULT 0,
    context_mode          TEXT    NOT NULL,
    recovery_level        INTEGER NOT NULL DEFAULT 0,
    context_tokens        INTEGER,
    context_window        INTEGER,
    budget_usd            DOUBLE PRECISION,
    cost_usd              DOUBLE PRECISION,
    reported_usd          DOUBLE PRECISION,
    num_turns             INTEGER,
    duration_ms           INTEGER,
    input_tokens          INTEGER,
    output_tokens         INTEGER,
    cache_read_tokens     INTEGER,
    cache_write_tokens    INTEGER,
    exit_code             INTEGER,
    cli_version           TEXT,
    pid                   INTEGER,
    process_started       TEXT,
    structured            BOOLEAN NOT NULL DEFAULT FALSE,
    open_tool             TEXT,
    unseen                TEXT,
    conversation_path     TEXT,
    conversation_size     INTEGER,
    conversation_sha      TEXT,
    owner                 TEXT,
    transcript_seq        INTEGER NOT NULL DEFAULT 0,
    transcript_lines      INTEGER NOT NULL DEFAULT 0,
    -- How many of transcript_lines are not stored, for whatever reason.
    transcript_dropped    INTEGER NOT NULL DEFAULT 0,
    -- The size of the stored lines; below 0 while they are being removed.
    transcript_bytes      INTEGER NOT NULL DEFAULT 0,
    -- The middle of the output that was dropped: the number of its first line, where a line says so, and of its last; 0 while everything is
    -- there. The size counts what was dropped.
    transcript_cut        INTEGER NOT NULL DEFAULT 0,
    transcript_cut_end    INTEGER NOT NULL DEFAULT 0,
    transcript_cut_bytes  INTEGER NOT NULL DEFAULT 0,
    -- When the rows went because they were old.
    transcript_removed_at TEXT,
    guard_removed_at      TEXT,
    created_at            TEXT    NOT NULL,
    started_at            TEXT,
    ended_at              TEXT,
    handoff_error         TEXT,
    outcome_json          TEXT,
    handoff_json          TEXT,
    UNIQUE (cycle_id, tier, attempt)
);
CREATE INDEX idx_sessions_parent ON sessions (parent_session_id);
CREATE INDEX idx_sessions_session_id ON sessions (session_id);
CREATE INDEX idx_sessions_status ON sessions (status, id);
CREATE INDEX idx_sessions_tier ON sessions (tier, id);
CREATE INDEX idx_sessions_window ON sessions (model, id, context_window) WHERE context_window IS NOT NULL;
CREATE INDEX idx_sessions_environment ON sessions (environment, id);
CREATE INDEX idx_sessions_ended ON sessions (ended_at, cost_usd) WHERE ended_at IS NOT NULL;
-- What running sessions have reserved.
CREATE INDEX idx_sessions_reserved ON sessions (environment, cycle_id, budget_usd) WHERE status = 'running';
CREATE INDEX idx_sessions_transcript ON sessions (ended_at, id, transcript_bytes)
    WHERE ended_at IS NOT NULL AND transcript_removed_at IS NULL;

-- The output of sessions, line by line. No foreign key: the session is looked up once per batch, not once per line. Rows stand in the order
-- in which they come, with the key beside them: kept in the key's own tree, a line over a quarter page would take a page of its own.
CREATE TABLE transcript (
    session_id INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    at         TEXT    NOT NULL,
    line       TEXT    NOT NULL,
    PRIMARY KEY (session_id, seq)
);

-- What was decided after a session: who continues, or why nobody does.
CREATE TABLE escalations (
    id                       INTEGER PRIMARY KEY AUTOINCREMENT,
    cycle_id                 INTEGER NOT NULL REFERENCES cycles (id),
    session_id               INTEGER REFERENCES sessions (id),
    source_handler           TEXT    NOT NULL,
    target_handler           TEXT    NOT NULL,
    reason                   TEXT    NOT NULL,
    proposed                 TEXT    NOT NULL DEFAULT '',
    services                 TEXT,
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

-- What was done about sessions that failed.
CREATE TABLE recoveries (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    cycle_id        INTEGER NOT NULL REFERENCES cycles (id),
    session_id      INTEGER REFERENCES sessions (id),
    tier            INTEGER NOT NULL,
    handler         TEXT    NOT NULL DEFAULT '',
    level           INTEGER NOT NULL,
    action          TEXT    NOT NULL,
    variant         INTEGER NOT NULL DEFAULT 0,
    error_type      TEXT    NOT NULL,
    previous_levels TEXT    NOT NULL DEFAULT '[]',
    entered_at      TEXT    NOT NULL,
    not_before      TEXT,
    deadline        TEXT,
    reason          TEXT    NOT NULL
);
CREATE INDEX idx_recoveries_cycle ON recoveries (cycle_id, id);

-- What a judge says about a repair.
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

-- What each step of a cycle was decided from. A row belongs to one decision that was written, and is written with it. facts are those of
-- package decide/replay: what has changed since the row before it, and what was decided. A row whose facts set cycle.ID says everything.
CREATE TABLE steps (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    cycle_id INTEGER NOT NULL REFERENCES cycles (id),
    n        INTEGER NOT NULL,
    at       TEXT    NOT NULL,
    "row"    TEXT    NOT NULL,
    facts    TEXT    NOT NULL
);
CREATE UNIQUE INDEX idx_steps_cycle ON steps (cycle_id, n);

-- What happened, for people to read, and who changed what.
CREATE TABLE events (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    at          TEXT    NOT NULL,
    cycle_id    INTEGER REFERENCES cycles (id),
    session_id  INTEGER REFERENCES sessions (id),
    environment TEXT    NOT NULL DEFAULT '',
    level       TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    verb        TEXT    NOT NULL DEFAULT '',
    actor_kind  TEXT    NOT NULL DEFAULT 'supervisor',
    actor       TEXT    NOT NULL DEFAULT '',
    subject_kind TEXT   NOT NULL DEFAULT '',
    subject_id  TEXT    NOT NULL DEFAULT '',
    reason      TEXT    NOT NULL DEFAULT '',
    detail      TEXT    NOT NULL DEFAULT '',
    service     TEXT    NOT NULL DEFAULT '',
    message     TEXT    NOT NULL
);
CREATE INDEX idx_events_subject ON events (subject_kind, subject_id, id);
CREATE INDEX idx_events_level ON events (level, id);
CREATE INDEX idx_events_cycle ON events (cycle_id, id);
CREATE INDEX idx_events_session ON events (session_id, id);
CREATE INDEX idx_events_kind ON events (kind, id);
CREATE INDEX idx_events_service ON events (service, id);
CREATE INDEX idx_events_environment ON events (environment, id);

-- What later sessions are told of a service.
CREATE TABLE memories (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    environment TEXT    NOT NULL DEFAULT '',
    category    TEXT    NOT NULL,
    service     TEXT    NOT NULL DEFAULT '',
    observation TEXT    NOT NULL,
    confidence  DOUBLE PRECISION NOT NULL,
    source      TEXT    NOT NULL DEFAULT 'agent',
    session_id  INTEGER REFERENCES sessions (id),
    created_at  TEXT    NOT NULL,
    updated_at  TEXT    NOT NULL,
    used_at     TEXT,
    expires_at  TEXT
);
CREATE INDEX idx_memories_service ON memories (environment, service, id);

------------------------------------------------------------------------------------------------------------------------------------------
-- Watch: what is wrong, and for what agents are started
------------------------------------------------------------------------------------------------------------------------------------------

-- The results of probes.
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
CREATE INDEX idx_checks_bad ON checks (environment, service, id) WHERE status <> 'healthy';

-- How often each finding was made in an hour: months of health are read without reading every check. Beside it the response times: the
-- shortest and the longest in milliseconds (-1: none was measured), and a histogram. Each of its columns holds three counters of 21 bits,
-- so that adding two columns adds their counters.
CREATE TABLE check_hours (
    at          TEXT    NOT NULL, -- 2006-01-02T15, UTC
    environment TEXT    NOT NULL,
    service     TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    checks      INTEGER NOT NULL,
    time_min    INTEGER NOT NULL DEFAULT -1,
    time_max    INTEGER NOT NULL DEFAULT -1,
    times_1     INTEGER NOT NULL DEFAULT 0,
    times_2     INTEGER NOT NULL DEFAULT 0,
    times_3     INTEGER NOT NULL DEFAULT 0,
    times_4     INTEGER NOT NULL DEFAULT 0,
    times_5     INTEGER NOT NULL DEFAULT 0,
    times_6     INTEGER NOT NULL DEFAULT 0,
    times_7     INTEGER NOT NULL DEFAULT 0,
    times_8     INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (at, environment, service, status)
);
-- The history of a few services among very many.
CREATE INDEX idx_check_hours_service ON check_hours (service, environment, at);

-- The same by the day, without response times.
CREATE TABLE check_days (
    at          TEXT    NOT NULL, -- 2006-01-02, UTC
    environment TEXT    NOT NULL,
    service     TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    checks      INTEGER NOT NULL,
    PRIMARY KEY (at, environment, service, status)
);
CREATE INDEX idx_check_days_service ON check_days (service, environment, at);

-- The state of every check: what came before decides what a result means.
CREATE TABLE probe_states (
    environment TEXT NOT NULL,
    service     TEXT NOT NULL,
    probe       TEXT NOT NULL,
    level       TEXT NOT NULL,
    since       TEXT NOT NULL,
    state       TEXT NOT NULL,
    PRIMARY KEY (environment, service, probe)
);

-- The calls of jobs that probes of type heartbeat wait for. The digest is that of the token in the address; without one there is no address
-- yet. Times without a value mean never.
CREATE TABLE heartbeats (
    environment TEXT    NOT NULL,
    service     TEXT    NOT NULL,
    probe       TEXT    NOT NULL,
    digest      TEXT,
    since       TEXT    NOT NULL,
    started_at  TEXT,
    ended_at    TEXT,
    failed      BOOLEAN NOT NULL DEFAULT FALSE,
    exit_code   INTEGER NOT NULL DEFAULT 0,
    output      TEXT    NOT NULL DEFAULT '',
    seq         INTEGER NOT NULL,
    PRIMARY KEY (environment, service, probe)
);
CREATE UNIQUE INDEX idx_heartbeats_digest ON heartbeats (digest);
CREATE INDEX idx_heartbeats_seq ON heartbeats (environment, seq);

-- What other systems tell by webhook. One row per fingerprint, however often it is told. seq counts that, so that nobody settles what was
-- told in between.
CREATE TABLE alerts (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    environment TEXT    NOT NULL,
    source      TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    level       TEXT    NOT NULL,
    name        TEXT    NOT NULL DEFAULT '',
    service     TEXT    NOT NULL DEFAULT '',
    summary     TEXT    NOT NULL DEFAULT '',
    labels      TEXT    NOT NULL DEFAULT '{}',
    url         TEXT    NOT NULL DEFAULT '',
    -- content identifies severity, labels and values; changed_at is when they last changed, or when the alert began to fire.
    content     TEXT    NOT NULL DEFAULT '',
    changed_at  TEXT    NOT NULL DEFAULT '',
    starts_at   TEXT    NOT NULL,
    ends_at     TEXT,
    told        INTEGER NOT NULL DEFAULT 1,
    first_at    TEXT    NOT NULL,
    last_at     TEXT    NOT NULL,
    seq         INTEGER NOT NULL DEFAULT 1,
    pending     BOOLEAN NOT NULL DEFAULT TRUE,
    -- How often people were told of the alert after its cycle had ended, and when they first were.
    disputes    INTEGER NOT NULL DEFAULT 0,
    disputed_at TEXT,
    UNIQUE (environment, fingerprint)
);
CREATE INDEX idx_alerts_pending ON alerts (id) WHERE pending;
CREATE INDEX idx_alerts_status ON alerts (status, last_at);

-- Signed requests that were received, so that one that is sent a second time is recognised.
CREATE TABLE webhook_receipts (
    signature  TEXT NOT NULL PRIMARY KEY,
    expires_at TEXT NOT NULL
);
CREATE INDEX idx_webhook_receipts_expires ON webhook_receipts (expires_at);

-- The problems for which cycles were started.
CREATE TABLE causes (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    cause       TEXT    NOT NULL,
    environment TEXT    NOT NULL,
    group_name  TEXT    NOT NULL DEFAULT '',
    services    TEXT    NOT NULL,
    affected    TEXT    NOT NULL DEFAULT '[]',
    level       TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    began       TEXT    NOT NULL,
    at          TEXT    NOT NULL,
    cycle_id    INTEGER NOT NULL REFERENCES cycles (id),
    resolved_at TEXT
);
CREATE INDEX idx_causes_environment ON causes (environment, at);
CREATE INDEX idx_causes_open ON causes (environment, id) WHERE resolved_at IS NULL;
CREATE INDEX idx_causes_cycle ON causes (cycle_id);
-- The causes that were over lately.
CREATE INDEX idx_causes_resolved ON causes (environment, resolved_at) WHERE resolved_at IS NOT NULL;

-- The bad services for which no agent is started now.
CREATE TABLE withheld (
    environment TEXT NOT NULL,
    service     TEXT NOT NULL,
    why         TEXT NOT NULL,
    reason      TEXT NOT NULL,
    until       TEXT,
    PRIMARY KEY (environment, service)
);

-- What changed on the hosts. at is when it was seen, happened_at when it happened, where that is known, and not_before the look before it.
CREATE TABLE changes (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    at          TEXT    NOT NULL,
    happened_at TEXT    NOT NULL,
    not_before  TEXT    NOT NULL,
    environment TEXT    NOT NULL,
    host        TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    subject     TEXT    NOT NULL,
    service     TEXT    NOT NULL,
    message     TEXT    NOT NULL
);
CREATE INDEX idx_changes_happened ON changes (environment, happened_at);

-- How resources were when they were last seen. The row without a subject says that a kind is looked at.
CREATE TABLE resources (
    environment TEXT NOT NULL,
    host        TEXT NOT NULL,
    kind        TEXT NOT NULL,
    subject     TEXT NOT NULL,
    service     TEXT NOT NULL,
    parts       TEXT NOT NULL,
    unseen      TEXT NOT NULL,
    at          TEXT NOT NULL,
    PRIMARY KEY (environment, host, kind, subject)
);

------------------------------------------------------------------------------------------------------------------------------------------
-- People: what they are told and asked, and what they answered
------------------------------------------------------------------------------------------------------------------------------------------

-- Problems that are followed until they are over, whoever ends them.
CREATE TABLE incidents (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    environment     TEXT    NOT NULL,
    service         TEXT    NOT NULL DEFAULT '',
    "check"         TEXT    NOT NULL DEFAULT '',
    class           TEXT    NOT NULL DEFAULT '',
    fingerprint     TEXT,
    title           TEXT    NOT NULL,
    level           TEXT    NOT NULL,
    status          TEXT    NOT NULL,
    occurrences     INTEGER NOT NULL DEFAULT 1,
    first_cycle_id  INTEGER REFERENCES cycles (id),
    last_cycle_id   INTEGER REFERENCES cycles (id),
    opened_at       TEXT    NOT NULL,
    updated_at      TEXT    NOT NULL,
    -- When a human was first called about it; NULL while the supervisor works on it alone.
    called_at       TEXT,
    acknowledged_at TEXT,
    acknowledged_by TEXT    NOT NULL DEFAULT '',
    snoozed_until   TEXT,
    reminders       INTEGER NOT NULL DEFAULT 0,
    remind_at       TEXT,
    -- When a probe of its service last failed, at its opening or after it. Probes close no incident that they never saw.
    probe_failed_at TEXT,
    -- Since when a repair is claimed and nothing could confirm it.
    unverified_at   TEXT,
    resolved_at     TEXT,
    resolved_by     TEXT    NOT NULL DEFAULT '',
    resolution      TEXT    NOT NULL DEFAULT '',
    -- Until when it is opened again if the same check fails.
    probation_until TEXT,
    report          TEXT,
    -- What a human was called for, piece by piece: it is over when every piece is.
    findings        TEXT    NOT NULL DEFAULT '[]'
);
CREATE UNIQUE INDEX idx_incidents_fingerprint ON incidents (fingerprint) WHERE resolved_at IS NULL;
CREATE INDEX idx_incidents_status ON incidents (status, id);
CREATE INDEX idx_incidents_service ON incidents (environment, service, id);
CREATE INDEX idx_incidents_open ON incidents (environment, id) WHERE resolved_at IS NULL;
CREATE INDEX idx_incidents_remind ON incidents (remind_at, id) WHERE remind_at IS NOT NULL;
CREATE INDEX idx_incidents_resolved ON incidents (resolved_at) WHERE resolved_at IS NOT NULL;

-- Which cycles wait for which problems. Several cycles may wait for one problem, and one cycle for several problems.
CREATE TABLE incident_waits (
    incident_id INTEGER NOT NULL REFERENCES incidents (id),
    cycle_id    INTEGER NOT NULL REFERENCES cycles (id),
    PRIMARY KEY (incident_id, cycle_id)
);
CREATE INDEX idx_incident_waits_cycle ON incident_waits (cycle_id);

-- The cycles that worked on a problem: what it cost is the sum of theirs. Without a reference to cycles, which may be removed when they are
-- old.
CREATE TABLE incident_cycles (
    incident_id INTEGER NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
    cycle_id    INTEGER NOT NULL,
    PRIMARY KEY (incident_id, cycle_id)
);

-- Questions to people, and their answers.
CREATE TABLE approvals (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    cycle_id     INTEGER NOT NULL REFERENCES cycles (id),
    session_id   INTEGER REFERENCES sessions (id),
    environment  TEXT    NOT NULL DEFAULT '',
    kind         TEXT    NOT NULL DEFAULT 'tier',
    tier         INTEGER NOT NULL,
    handler      TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    reason       TEXT    NOT NULL DEFAULT '',
    requested_at TEXT    NOT NULL,
    expires_at   TEXT,
    answered_at  TEXT,
    answered_by  TEXT    NOT NULL DEFAULT '',
    answer       TEXT    NOT NULL DEFAULT '',
    -- Denied: until when no agent starts as long as nothing else is wrong.
    denied_until TEXT,
    -- What was wrong when the question was asked: service, probe and class of failure, without any free text.
    facts        TEXT,
    -- The plan of the question, the hash of what a person sees of it, and the steps that were approved.
    plan         TEXT,
    plan_hash    TEXT    NOT NULL DEFAULT '',
    plan_steps   TEXT,
    -- Why the approved steps that have not run will not; empty while they may.
    plan_skipped TEXT    NOT NULL DEFAULT ''
);
-- One question at a time.
CREATE UNIQUE INDEX idx_approvals_pending ON approvals (cycle_id) WHERE status = 'pending';
CREATE INDEX idx_approvals_cycle ON approvals (cycle_id, id);
CREATE INDEX idx_approvals_status ON approvals (status, id);
CREATE INDEX idx_approvals_environment ON approvals (environment, id);
CREATE INDEX idx_approvals_denied ON approvals (environment, denied_until) WHERE denied_until IS NOT NULL;

-- Messages to people, and whether they were sent.
CREATE TABLE notifications (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    cycle_id    INTEGER REFERENCES cycles (id),
    -- The incident that it is about; NULL if it is not about a single one.
    incident_id INTEGER,
    environment TEXT    NOT NULL DEFAULT '',
    service     TEXT    NOT NULL DEFAULT '',
    kind        TEXT    NOT NULL,
    level       TEXT    NOT NULL,
    title       TEXT    NOT NULL,
    body        TEXT    NOT NULL,
    target      TEXT    NOT NULL DEFAULT '',
    dedup_key   TEXT    NOT NULL DEFAULT '',
    status      TEXT    NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    next_at     TEXT    NOT NULL,
    error       TEXT    NOT NULL DEFAULT '',
    -- The targets that took it, as JSON: route, name of the target, time.
    deliveries  TEXT    NOT NULL DEFAULT '',
    created_at  TEXT    NOT NULL,
    sent_at     TEXT
);
CREATE INDEX idx_notifications_due ON notifications (next_at, id) WHERE status = 'pending';
CREATE INDEX idx_notifications_cycle ON notifications (cycle_id);
CREATE INDEX idx_notifications_key ON notifications (dedup_key, created_at) WHERE dedup_key <> '';
CREATE INDEX idx_notifications_status ON notifications (status, id);

-- Short names of signed tokens that answer a notice, for channels that have no room for a token.
CREATE TABLE answer_codes (
    code       TEXT NOT NULL PRIMARY KEY,
    token      TEXT NOT NULL,
    expires_at TEXT NOT NULL
);
CREATE INDEX idx_answer_codes_expires ON answer_codes (expires_at);

-- Tokens that were used, so that each is used once. source is the message that brought it: the same message again is not a second use.
CREATE TABLE used_answers (
    code        TEXT NOT NULL PRIMARY KEY,
    source      TEXT NOT NULL,
    at          TEXT NOT NULL,
    answered_by TEXT NOT NULL,
    expires_at  TEXT NOT NULL
);
CREATE INDEX idx_used_answers_expires ON used_answers (expires_at);

-- Times in which nobody is told of a service, and no agent is started for it.
CREATE TABLE silences (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    environment TEXT    NOT NULL DEFAULT '',
    service     TEXT    NOT NULL DEFAULT '',
    group_name  TEXT    NOT NULL DEFAULT '',
    probe       TEXT    NOT NULL DEFAULT '',
    labels      TEXT    NOT NULL DEFAULT '{}',
    reason      TEXT    NOT NULL DEFAULT '',
    created_by  TEXT    NOT NULL DEFAULT '',
    created_at  TEXT    NOT NULL,
    starts_at   TEXT    NOT NULL,
    ends_at     TEXT    NOT NULL
);
CREATE INDEX idx_silences_ends ON silences (ends_at);

-- The trust in a service where it is lower than the configuration allows.
CREATE TABLE trust (
    environment TEXT NOT NULL,
    service     TEXT NOT NULL,
    level       TEXT NOT NULL,
    changed_by  TEXT NOT NULL,
    reason      TEXT NOT NULL,
    changed_at  TEXT NOT NULL,
    PRIMARY KEY (environment, service)
);

-- Who is logged in. The digest needs the token: a stolen database opens no page, and another token ends every login. A login with a token
-- of its own name ends with it.
CREATE TABLE logins (
    digest     TEXT    NOT NULL PRIMARY KEY,
    role       TEXT    NOT NULL,
    name       TEXT    NOT NULL DEFAULT '',
    token_id   INTEGER NOT NULL DEFAULT 0,
    born_at    TEXT    NOT NULL,
    renewed_at TEXT    NOT NULL,
    expires_at TEXT    NOT NULL
);
CREATE INDEX idx_logins_expires ON logins (expires_at);

-- Secrets that open a door once: the codes of sign-in links. All hosts know them, and a restart keeps them.
CREATE TABLE door_codes (
    digest     TEXT NOT NULL PRIMARY KEY,
    who        TEXT NOT NULL,
    expires_at TEXT NOT NULL
);
CREATE INDEX idx_door_codes_expires ON door_codes (expires_at);

-- Tokens with names. Only the digest of a token is stored. A revoked token keeps its row; its name can be used again.
CREATE TABLE access_tokens (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT    NOT NULL,
    role         TEXT    NOT NULL,
    digest       TEXT    NOT NULL,
    created_at   TEXT    NOT NULL,
    created_by   TEXT    NOT NULL,
    expires_at   TEXT,
    last_used_at TEXT,
    revoked_at   TEXT,
    revoked_by   TEXT    NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX idx_access_tokens_name ON access_tokens (name) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX idx_access_tokens_digest ON access_tokens (digest);

------------------------------------------------------------------------------------------------------------------------------------------
-- Guard: what tool calls and the supervisor itself may do
------------------------------------------------------------------------------------------------------------------------------------------

-- The verdict on each tool call of an agent.
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
CREATE INDEX idx_guard_decisions_attack ON guard_decisions (at) WHERE rule = 'never.attack';
CREATE INDEX idx_guard_decisions_session ON guard_decisions (session_id, id);
CREATE INDEX idx_guard_decisions_tool_use ON guard_decisions (session_id, tool_use_id);

-- What counts against cooldowns. What was released or cleared no longer counts. Beside the time stands how long the machine was up, because
-- the time of day can be set.
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

-- What the supervisor does to services. The intent is written before anything runs, and a run that was started is never repeated. A run
-- that a person asked for counts against its cooldown here; all others count in cooldown_actions.
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
    -- The reflex that the run belongs to; empty: none.
    reflex        TEXT    NOT NULL DEFAULT '',
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
CREATE INDEX idx_action_runs_service ON action_runs (environment, service, id);
CREATE INDEX idx_action_runs_open ON action_runs (status, id) WHERE status IN ('requested', 'started');
CREATE INDEX idx_action_runs_counted ON action_runs (environment, service, counts_as, requested_at) WHERE counts;
CREATE INDEX idx_action_runs_reflex ON action_runs (environment, requested_at) WHERE reflex <> '';
-- A cycle does each action of a reflex once, whatever happens in between; a step of an approved plan runs once; a run is undone once.
CREATE UNIQUE INDEX idx_action_runs_reflex_once ON action_runs (cycle_id, reflex, step) WHERE reflex <> '' AND undo_of IS NULL;
CREATE UNIQUE INDEX idx_action_runs_step ON action_runs (approval_id, step) WHERE approval_id IS NOT NULL AND undo_of IS NULL;
CREATE UNIQUE INDEX idx_action_runs_undo ON action_runs (undo_of) WHERE undo_of IS NOT NULL AND status IN ('requested', 'started', 'done');

-- Repairs that probes confirmed and that consist of actions of the supervisor only: what failed in which way, and what was done.
CREATE TABLE repairs (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    environment TEXT    NOT NULL,
    service     TEXT    NOT NULL,
    probe       TEXT    NOT NULL,
    type        TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    class       TEXT    NOT NULL,
    actions     TEXT    NOT NULL,
    cycle_id    INTEGER NOT NULL REFERENCES cycles (id),
    at          TEXT    NOT NULL
);
CREATE INDEX idx_repairs_failure ON repairs (environment, service, probe, class, id);
CREATE INDEX idx_repairs_cycle ON repairs (cycle_id);

-- Reflexes that were earned by such repairs: the supervisor repeats them without an agent. People are asked once (asked), and a reflex is
-- on or off after that.
CREATE TABLE reflexes (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    environment TEXT    NOT NULL,
    service     TEXT    NOT NULL,
    probe       TEXT    NOT NULL,
    type        TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    class       TEXT    NOT NULL,
    actions     TEXT    NOT NULL,
    digests     TEXT    NOT NULL,
    state       TEXT    NOT NULL,
    cycles      TEXT    NOT NULL,
    person      TEXT    NOT NULL DEFAULT '',
    why         TEXT    NOT NULL DEFAULT '',
    asked_at    TEXT    NOT NULL,
    changed_at  TEXT    NOT NULL
);
CREATE UNIQUE INDEX idx_reflexes_failure ON reflexes (environment, service, probe, class, actions);

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

-- Services that get another image. The phase is written before its effect. slot is the time of the schedule that asked; NULL where a person
-- did. owner is the host that has the container.
CREATE TABLE updates (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    environment  TEXT    NOT NULL,
    service      TEXT    NOT NULL,
    phase        TEXT    NOT NULL,
    wanted       TEXT    NOT NULL,
    person       TEXT    NOT NULL,
    slot         TEXT,
    image_before TEXT    NOT NULL,
    image_after  TEXT    NOT NULL,
    kept         TEXT    NOT NULL,
    touches      TEXT    NOT NULL,
    states       TEXT    NOT NULL,
    result       TEXT    NOT NULL,
    owner        TEXT    NOT NULL,
    asked_at     TEXT    NOT NULL,
    phase_at     TEXT    NOT NULL,
    ended_at     TEXT
);
CREATE INDEX idx_updates_service ON updates (environment, service, id);
CREATE INDEX idx_updates_open ON updates (ended_at, id);
CREATE UNIQUE INDEX idx_updates_slot ON updates (environment, service, slot);

-- What was last seen of the images of services. unknown says why the newest digest is not known.
CREATE TABLE versions (
    environment TEXT NOT NULL,
    service     TEXT NOT NULL,
    image       TEXT NOT NULL,
    newest      TEXT NOT NULL,
    unknown     TEXT NOT NULL,
    at          TEXT NOT NULL,
    PRIMARY KEY (environment, service)
);

-- What the last trial of each agent program of a host found: whether its gates hold it, and what became of the command and of the file
-- that it was asked for. It counts for these files of it.
CREATE TABLE agent_trials (
    host     TEXT    NOT NULL,
    agent    TEXT    NOT NULL,
    identity TEXT    NOT NULL,
    program  TEXT    NOT NULL,
    version  TEXT    NOT NULL,
    held     BOOLEAN NOT NULL,
    command  TEXT    NOT NULL,
    file     TEXT    NOT NULL,
    at       TEXT    NOT NULL,
    PRIMARY KEY (host, agent)
);

------------------------------------------------------------------------------------------------------------------------------------------
-- Reports: what sessions cost, added up when they end
------------------------------------------------------------------------------------------------------------------------------------------

-- By the UTC day on which sessions ended. A cost is in billionths of a dollar, so that sums are exact whatever the order. Beside each
-- figure is how many sessions reported it. services is the JSON list of the cycle's last decision that names services.
CREATE TABLE cost_days (
    day                  TEXT    NOT NULL,
    environment          TEXT    NOT NULL,
    tier                 INTEGER NOT NULL,
    model                TEXT    NOT NULL,
    "trigger"            TEXT    NOT NULL,
    services             TEXT    NOT NULL,
    sessions             INTEGER NOT NULL,
    cost                 INTEGER NOT NULL,
    cost_reported        INTEGER NOT NULL,
    input                INTEGER NOT NULL,
    input_reported       INTEGER NOT NULL,
    output               INTEGER NOT NULL,
    output_reported      INTEGER NOT NULL,
    cache_read           INTEGER NOT NULL,
    cache_read_reported  INTEGER NOT NULL,
    cache_write          INTEGER NOT NULL,
    cache_write_reported INTEGER NOT NULL,
    PRIMARY KEY (day, environment, tier, model, "trigger", services)
);

-- What cycles cost as a whole, in billionths of a dollar, written when they end: a row for each day on which a session of theirs ended.
-- All columns are in the key, so that the most expensive ones of a day are found in it.
CREATE TABLE cycle_cost_days (
    day         TEXT    NOT NULL,
    cost        INTEGER NOT NULL,
    cycle_id    INTEGER NOT NULL,
    environment TEXT    NOT NULL,
    PRIMARY KEY (day, cost, cycle_id, environment)
);
