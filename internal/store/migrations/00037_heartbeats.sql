-- The calls of jobs that probes of type heartbeat wait for.

-- +goose Up

-- The digest is that of the token in the address; without one there is no address yet. Times without a value mean never.
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
