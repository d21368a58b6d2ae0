-- What an answer to a question means for later: the steps of a plan that did not run, and a no that lasts.

-- +goose Up

-- Why the approved steps of the plan that have not run will not; empty while they may.
ALTER TABLE approvals ADD COLUMN plan_skipped TEXT NOT NULL DEFAULT '';
-- What was wrong when the question was asked: service, probe and class of failure, without any free text.
ALTER TABLE approvals ADD COLUMN facts TEXT;
-- Denied: until when no agent starts as long as nothing else is wrong.
ALTER TABLE approvals ADD COLUMN denied_until TEXT;
CREATE INDEX idx_approvals_denied ON approvals (environment, denied_until) WHERE denied_until IS NOT NULL;
