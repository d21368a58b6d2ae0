-- A chain of hashes over the audit records.

-- +goose Up

-- An audit record holds the hash of the record before it and its own. Other events, and audit records from before this migration, hold
-- neither.
ALTER TABLE events ADD COLUMN previous_hash TEXT;
ALTER TABLE events ADD COLUMN hash TEXT;
CREATE INDEX idx_events_hash ON events (id) WHERE hash IS NOT NULL;

-- head is the newest record of the chain; anchor is the last one that was removed, or the last event before the chain began. Without a
-- row the chain begins with the first event.
CREATE TABLE audit_chain (
    name     TEXT    NOT NULL PRIMARY KEY,
    event_id INTEGER NOT NULL,
    hash     TEXT    NOT NULL
);
INSERT INTO audit_chain (name, event_id, hash) SELECT 'anchor', id, '' FROM events ORDER BY id DESC LIMIT 1;
