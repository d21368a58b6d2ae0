-- What is watched all the time: the state of every check, what other systems tell, the causes that started cycles, and who
-- is told of them.

-- +goose Up

-- One row per fingerprint, however often it is told. seq counts that, so that nobody settles what was told in between.
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
    starts_at   TEXT    NOT NULL,
    ends_at     TEXT,
    told        INTEGER NOT NULL DEFAULT 1,
    first_at    TEXT    NOT NULL,
    last_at     TEXT    NOT NULL,
    seq         INTEGER NOT NULL DEFAULT 1,
    pending     BOOLEAN NOT NULL DEFAULT TRUE,
    UNIQUE (environment, fingerprint)
);
CREATE INDEX idx_alerts_pending ON alerts (id) WHERE pending;
CREATE INDEX idx_alerts_status ON alerts (status, last_at);

CREATE TABLE probe_states (
    environment TEXT NOT NULL,
    service     TEXT NOT NULL,
    probe       TEXT NOT NULL,
    level       TEXT NOT NULL,
    since       TEXT NOT NULL,
    state       TEXT NOT NULL,
    PRIMARY KEY (environment, service, probe)
);

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

-- The bad services for which no agent is started now.
CREATE TABLE withheld (
    environment TEXT NOT NULL,
    service     TEXT NOT NULL,
    why         TEXT NOT NULL,
    reason      TEXT NOT NULL,
    until       TEXT,
    PRIMARY KEY (environment, service)
);

ALTER TABLE silences ADD COLUMN group_name TEXT NOT NULL DEFAULT '';
ALTER TABLE silences ADD COLUMN probe TEXT NOT NULL DEFAULT '';
ALTER TABLE silences ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';

ALTER TABLE notifications ADD COLUMN target TEXT NOT NULL DEFAULT '';
ALTER TABLE notifications ADD COLUMN environment TEXT NOT NULL DEFAULT '';
ALTER TABLE notifications ADD COLUMN service TEXT NOT NULL DEFAULT '';
ALTER TABLE notifications ADD COLUMN dedup_key TEXT NOT NULL DEFAULT '';
CREATE INDEX idx_notifications_key ON notifications (dedup_key, created_at) WHERE dedup_key <> '';
CREATE INDEX idx_notifications_status ON notifications (status, id);
