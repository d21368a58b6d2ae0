-- What changed on the hosts, and how things were when they were last seen.

-- +goose Up

-- at is when it was seen, happened_at when it happened, where that is known, and not_before the look before it.
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

-- The row without a subject says that a kind is looked at.
CREATE TABLE things (
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
