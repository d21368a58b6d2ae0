-- What a decision used to read out of error texts, and whether a repair was confirmed.

-- +goose Up

-- The call that a looping session repeated.
ALTER TABLE sessions ADD COLUMN loop_call TEXT;
-- Whether probes or a judge confirmed that the cycle is resolved; NULL where nothing was claimed.
ALTER TABLE cycles ADD COLUMN verified BOOLEAN;

-- The cycles that worked on a problem: what it cost is the sum of theirs. Without a reference to cycles, which may be removed
-- when they are old.
CREATE TABLE incident_cycles (
    incident_id INTEGER NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
    cycle_id    INTEGER NOT NULL,
    PRIMARY KEY (incident_id, cycle_id)
);
INSERT INTO incident_cycles (incident_id, cycle_id)
    SELECT id, first_cycle_id FROM incidents WHERE first_cycle_id IS NOT NULL
    UNION SELECT id, last_cycle_id FROM incidents WHERE last_cycle_id IS NOT NULL;
