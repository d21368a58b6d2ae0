-- Answers to notices, given with a button on a phone or by a link.

-- +goose Up

-- The incident that the notice is about; NULL if it is not about a single one.
ALTER TABLE notifications ADD COLUMN incident_id INTEGER;

-- Short names of signed tokens, for channels that have no room for a token.
CREATE TABLE answer_codes (
    code       TEXT NOT NULL PRIMARY KEY,
    token      TEXT NOT NULL,
    expires_at TEXT NOT NULL
);
CREATE INDEX idx_answer_codes_expires ON answer_codes (expires_at);

-- Tokens that were used, so that each is used once. source is the message that brought it: the same message again is not a second use.
CREATE TABLE used_answers (
    code        TEXT NOT NULL PRIMARY KEY,
    source      TEXT NOT NULL,
    at          TEXT NOT NULL,
    answered_by TEXT NOT NULL,
    expires_at  TEXT NOT NULL
);
CREATE INDEX idx_used_answers_expires ON used_answers (expires_at);
