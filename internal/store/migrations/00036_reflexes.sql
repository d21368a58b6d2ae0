-- Repairs that the supervisor does without an agent.

-- +goose Up

-- The reflex that a run belongs to; empty: none. A cycle does each action of a reflex once, whatever happens in between.
ALTER TABLE action_runs ADD COLUMN reflex TEXT NOT NULL DEFAULT '';
CREATE INDEX idx_action_runs_reflex ON action_runs (environment, requested_at) WHERE reflex <> '';
CREATE UNIQUE INDEX idx_action_runs_reflex_once ON action_runs (cycle_id, reflex, step) WHERE reflex <> '' AND undo_of IS NULL;

-- A repair that probes confirmed and that consists of actions of the supervisor only: what failed in which way, and what was done.
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

-- A reflex that was earned by such repairs. People are asked once (asked), and it is on or off after that.
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
