-- Which versions of agent CLIs were shown to ask before they run a tool.

-- +goose Up

-- The trial of one version on one host. Settings identifies the command and the settings that it was tried with: another one needs
-- another trial. A version that ran something unasked in a session is not trusted any more.
CREATE TABLE agent_canaries (
    host     TEXT    NOT NULL,
    profile  TEXT    NOT NULL,
    version  TEXT    NOT NULL,
    settings TEXT    NOT NULL,
    program  TEXT    NOT NULL,
    model    TEXT    NOT NULL DEFAULT '',
    passed   BOOLEAN NOT NULL,
    detail   TEXT    NOT NULL,
    cost_usd DOUBLE PRECISION,
    at       TEXT    NOT NULL,
    PRIMARY KEY (host, profile, version, settings)
);
