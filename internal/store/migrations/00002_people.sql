-- What people are asked, what they answered, what an attempt was for and what it may spend.

-- +goose Up

-- What was last seen of wake_seq by the worker: an answer that came after it must not be slept over.
ALTER TABLE cycles ADD COLUMN seen_seq INTEGER NOT NULL DEFAULT 0;

ALTER TABLE sessions ADD COLUMN role TEXT NOT NULL DEFAULT 'work';
-- 0: those of its tier.
ALTER TABLE sessions ADD COLUMN permissions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN budget_usd DOUBLE PRECISION;
ALTER TABLE sessions ADD COLUMN api_status INTEGER;
ALTER TABLE sessions ADD COLUMN retry_after_ms INTEGER;
ALTER TABLE sessions ADD COLUMN loop_count INTEGER NOT NULL DEFAULT 0;
-- What running sessions have reserved.
CREATE INDEX idx_sessions_reserved ON sessions (environment, cycle_id, budget_usd) WHERE status = 'running';

ALTER TABLE escalations ADD COLUMN services TEXT;

ALTER TABLE recoveries ADD COLUMN variant INTEGER NOT NULL DEFAULT 0;
ALTER TABLE recoveries ADD COLUMN handler TEXT NOT NULL DEFAULT '';

ALTER TABLE approvals ADD COLUMN kind TEXT NOT NULL DEFAULT 'tier';
ALTER TABLE approvals ADD COLUMN environment TEXT NOT NULL DEFAULT '';
-- One question at a time.
CREATE UNIQUE INDEX idx_approvals_pending ON approvals (cycle_id) WHERE status = 'pending';
CREATE INDEX idx_approvals_environment ON approvals (environment, id);

ALTER TABLE incidents ADD COLUMN "check" TEXT NOT NULL DEFAULT '';
ALTER TABLE incidents ADD COLUMN class TEXT NOT NULL DEFAULT '';
ALTER TABLE incidents ADD COLUMN fingerprint TEXT;
ALTER TABLE incidents ADD COLUMN report TEXT;
ALTER TABLE incidents ADD COLUMN resolved_by TEXT NOT NULL DEFAULT '';
ALTER TABLE incidents ADD COLUMN reminders INTEGER NOT NULL DEFAULT 0;
ALTER TABLE incidents ADD COLUMN remind_at TEXT;
CREATE UNIQUE INDEX idx_incidents_fingerprint ON incidents (fingerprint) WHERE resolved_at IS NULL;
CREATE INDEX idx_incidents_open ON incidents (environment, id) WHERE resolved_at IS NULL;
CREATE INDEX idx_incidents_remind ON incidents (remind_at, id) WHERE remind_at IS NOT NULL;

-- Several cycles may wait for one problem, and one cycle for several problems.
CREATE TABLE incident_waits (
    incident_id INTEGER NOT NULL REFERENCES incidents (id),
    cycle_id    INTEGER NOT NULL REFERENCES cycles (id),
    PRIMARY KEY (incident_id, cycle_id)
);
CREATE INDEX idx_incident_waits_cycle ON incident_waits (cycle_id);

ALTER TABLE memories ADD COLUMN source TEXT NOT NULL DEFAULT 'agent';
ALTER TABLE memories ADD COLUMN expires_at TEXT;
