-- Alerts that fire on although the cycle that was started for them has ended.

-- +goose Up

-- content identifies severity, labels and values; changed_at is when they last changed, or when the alert began to fire.
ALTER TABLE alerts ADD COLUMN content TEXT NOT NULL DEFAULT '';
ALTER TABLE alerts ADD COLUMN changed_at TEXT NOT NULL DEFAULT '';
UPDATE alerts SET changed_at = first_at;
-- How often people were told of the alert after its cycle had ended, and when they first were.
ALTER TABLE alerts ADD COLUMN disputes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE alerts ADD COLUMN disputed_at TEXT;

-- The causes that were over lately.
CREATE INDEX idx_causes_resolved ON causes (environment, resolved_at) WHERE resolved_at IS NOT NULL;
