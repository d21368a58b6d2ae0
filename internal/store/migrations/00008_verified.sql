-- What a decision used to read out of error texts, and whether a repair was confirmed.

-- +goose Up

-- The call that a looping session repeated.
ALTER TABLE sessions ADD COLUMN loop_call TEXT;
-- Whether probes or a judge confirmed that the cycle is resolved; NULL where nothing was claimed.
ALTER TABLE cycles ADD COLUMN verified BOOLEAN;
