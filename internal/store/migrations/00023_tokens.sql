-- Tokens with names, and who a login belongs to.

-- +goose Up

-- Only the digest of a token is stored. A revoked token keeps its row; its name can be used again.
CREATE TABLE access_tokens (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT    NOT NULL,
    role         TEXT    NOT NULL,
    digest       TEXT    NOT NULL,
    created_at   TEXT    NOT NULL,
    created_by   TEXT    NOT NULL,
    expires_at   TEXT,
    last_used_at TEXT,
    revoked_at   TEXT,
    revoked_by   TEXT    NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX idx_access_tokens_name ON access_tokens (name) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX idx_access_tokens_digest ON access_tokens (digest);

-- A login from before has no role: read_only says it. A login with a token or a passkey ends with it.
ALTER TABLE logins ADD COLUMN role TEXT NOT NULL DEFAULT '';
ALTER TABLE logins ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE logins ADD COLUMN token_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE logins ADD COLUMN passkey_id INTEGER NOT NULL DEFAULT 0;
