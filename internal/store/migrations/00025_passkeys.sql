-- Passkeys: keys on the devices of people, with which they sign in and approve.

-- +goose Up

-- credential is what the browser registered, as JSON: its public key and its counter. There is no secret in it.
CREATE TABLE passkeys (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT    NOT NULL,
    role          TEXT    NOT NULL,
    credential_id TEXT    NOT NULL,
    credential    TEXT    NOT NULL,
    created_at    TEXT    NOT NULL,
    created_by    TEXT    NOT NULL,
    last_used_at  TEXT
);
CREATE UNIQUE INDEX idx_passkeys_credential ON passkeys (credential_id);
CREATE UNIQUE INDEX idx_passkeys_name ON passkeys (name);
