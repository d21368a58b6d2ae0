-- Who says that a problem is over.

-- +goose Up

-- Who confirmed that the cycle is resolved: probe, judge, human, plan, reflex or none; empty where nothing was claimed or nobody recorded it.
ALTER TABLE cycles ADD COLUMN verified_by TEXT NOT NULL DEFAULT '';
UPDATE cycles SET verified_by = 'none' WHERE verified = FALSE;
-- When a check showed that the repair of a resolved cycle did not hold.
ALTER TABLE cycles ADD COLUMN refuted_at TEXT;

-- Since when a repair of the incident is claimed and nothing could confirm it.
ALTER TABLE incidents ADD COLUMN unverified_at TEXT;
-- When a probe of its service last failed, at its opening or after it. Probes close no incident that they never saw.
ALTER TABLE incidents ADD COLUMN probe_failed_at TEXT;
UPDATE incidents SET probe_failed_at = opened_at WHERE resolved_at IS NULL AND service <> '';
-- Until when a closed incident is opened again if the same check fails.
ALTER TABLE incidents ADD COLUMN probation_until TEXT;
