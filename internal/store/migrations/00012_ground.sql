-- Output beyond the limit of a session, and the clocks of hosts.

-- +goose Up

-- The middle of a session's output that was dropped: the number of its first line, where a line says so, and of its last; 0 while
-- everything is there. The size counts what was dropped.
ALTER TABLE sessions ADD COLUMN transcript_cut INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN transcript_cut_end INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN transcript_cut_bytes INTEGER NOT NULL DEFAULT 0;
-- How many of transcript_lines are not stored, for this or another reason.
ALTER TABLE sessions ADD COLUMN transcript_dropped INTEGER NOT NULL DEFAULT 0;

-- How far the clock of the host was ahead of the database's, when it last renewed its lease.
ALTER TABLE hosts ADD COLUMN clock_ahead_ms INTEGER NOT NULL DEFAULT 0;

-- The history of a few services among very many.
CREATE INDEX idx_check_hours_service ON check_hours (service, environment, at);
CREATE INDEX idx_check_days_service ON check_days (service, environment, at);
