-- What each step of a cycle was decided from.

-- +goose Up

-- A row belongs to one decision that was written, and is written with it. facts are those of package decide/replay: what has changed since
-- the row before it, and what was decided. A row whose facts set cycle.ID says everything.
CREATE TABLE steps (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    cycle_id INTEGER NOT NULL REFERENCES cycles (id),
    n        INTEGER NOT NULL,
    at       TEXT    NOT NULL,
    "row"    TEXT    NOT NULL,
    facts    TEXT    NOT NULL
);
CREATE UNIQUE INDEX idx_steps_cycle ON steps (cycle_id, n);
