-- What the page of a service shows: its response times, its runs of actions, and the errors of its history.

-- +goose Up

-- Response times of the checks of an hour: the shortest and the longest in milliseconds, and a histogram. Each column holds three
-- counters of 21 bits, so that adding two columns adds their counters. -1: none was measured.
ALTER TABLE check_hours ADD COLUMN time_min INTEGER NOT NULL DEFAULT -1;
ALTER TABLE check_hours ADD COLUMN time_max INTEGER NOT NULL DEFAULT -1;
ALTER TABLE check_hours ADD COLUMN times_1 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE check_hours ADD COLUMN times_2 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE check_hours ADD COLUMN times_3 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE check_hours ADD COLUMN times_4 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE check_hours ADD COLUMN times_5 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE check_hours ADD COLUMN times_6 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE check_hours ADD COLUMN times_7 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE check_hours ADD COLUMN times_8 INTEGER NOT NULL DEFAULT 0;

CREATE INDEX idx_action_runs_service ON action_runs (environment, service, id);
CREATE INDEX idx_checks_bad ON checks (environment, service, id) WHERE status <> 'healthy';
