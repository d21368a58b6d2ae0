-- What was removed because it was old, and how much there is to remove.

-- +goose Up

-- Written once after the session ended: all transcripts together are kept below a size.
ALTER TABLE sessions ADD COLUMN transcript_bytes INTEGER;
-- When the rows went. The session's own row stays and says so.
ALTER TABLE sessions ADD COLUMN transcript_removed_at TEXT;
ALTER TABLE sessions ADD COLUMN guard_removed_at TEXT;
CREATE INDEX idx_sessions_transcript ON sessions (ended_at, id, transcript_bytes)
    WHERE ended_at IS NOT NULL AND transcript_removed_at IS NULL;
