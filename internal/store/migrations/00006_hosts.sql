-- Several hosts on one database: who is alive, what each may do, and who looks after what must be done by one of them only.

-- +goose Up

ALTER TABLE hosts ADD COLUMN identity TEXT NOT NULL DEFAULT '';
ALTER TABLE hosts ADD COLUMN version TEXT NOT NULL DEFAULT '';
ALTER TABLE hosts ADD COLUMN labels TEXT NOT NULL DEFAULT '[]';
ALTER TABLE hosts ADD COLUMN environments TEXT NOT NULL DEFAULT '[]';
ALTER TABLE hosts ADD COLUMN draining BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE hosts ADD COLUMN seen_at TEXT;

CREATE TABLE duties (
    name       TEXT    NOT NULL PRIMARY KEY,
    host       TEXT    NOT NULL,
    term       INTEGER NOT NULL,
    expires_at TEXT    NOT NULL
);
