-- Secrets that open a door once: the codes of sign-in links and the ceremonies of passkeys. All hosts know them, and a restart keeps them.

-- +goose Up

CREATE TABLE door_codes (
    digest     TEXT NOT NULL PRIMARY KEY,
    who        TEXT NOT NULL,
    expires_at TEXT NOT NULL
);
CREATE INDEX idx_door_codes_expires ON door_codes (expires_at);
