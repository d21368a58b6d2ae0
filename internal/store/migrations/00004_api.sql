-- What callers of the API are told again, who is logged in, and what was told to a collector of traces.

-- +goose Up

-- A request that comes again with its key gets the same cycle.
ALTER TABLE cycles ADD COLUMN request_key TEXT;
CREATE UNIQUE INDEX idx_cycles_request ON cycles (request_key) WHERE request_key IS NOT NULL;

-- Answers to requests that came with a key. Without a status the request is still being worked on.
CREATE TABLE api_requests (
    caller   TEXT    NOT NULL,
    key      TEXT    NOT NULL,
    digest   TEXT    NOT NULL,
    at       TEXT    NOT NULL,
    status   INTEGER,
    location TEXT    NOT NULL DEFAULT '',
    type     TEXT    NOT NULL DEFAULT '',
    body     TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (caller, key)
);
CREATE INDEX idx_api_requests_at ON api_requests (at);

-- The digest needs the token: a stolen database opens no page, and another token ends every login.
CREATE TABLE logins (
    digest     TEXT    NOT NULL PRIMARY KEY,
    read_only  BOOLEAN NOT NULL,
    born_at    TEXT    NOT NULL,
    renewed_at TEXT    NOT NULL,
    expires_at TEXT    NOT NULL
);
CREATE INDEX idx_logins_expires ON logins (expires_at);

ALTER TABLE cycles ADD COLUMN traced_at TEXT;
ALTER TABLE sessions ADD COLUMN traced_at TEXT;
CREATE INDEX idx_cycles_untraced ON cycles (id) WHERE ended_at IS NOT NULL AND traced_at IS NULL;
CREATE INDEX idx_sessions_untraced ON sessions (id) WHERE ended_at IS NOT NULL AND traced_at IS NULL;
