-- An incident is open from the moment a tier works on an outage, also if nobody is called.

-- +goose Up

-- When a human was first called about the incident; NULL while the supervisor works on it alone.
ALTER TABLE incidents ADD COLUMN called_at TEXT;
UPDATE incidents SET called_at = opened_at;
