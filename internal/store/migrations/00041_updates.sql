-- Services that get another image, and what was last seen of their images.

-- +goose Up

-- The phase is written before its effect. slot is the time of the schedule that asked; NULL where a person did. owner is the
-- host that has the container.
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

-- unknown says why the newest digest is not known.
CREATE TABLE versions (
    environment TEXT NOT NULL,
    service     TEXT NOT NULL,
    image       TEXT NOT NULL,
    newest      TEXT NOT NULL,
    unknown     TEXT NOT NULL,
    at          TEXT NOT NULL,
    PRIMARY KEY (environment, service)
);
