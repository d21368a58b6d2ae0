-- What the pages read in ranges: health by the hour and the day, what sessions cost, and events by what they are about.

-- +goose Up

-- How often each finding was made: months of health are read without reading every check.
CREATE TABLE check_hours (
    at          TEXT    NOT NULL, -- 2006-01-02T15, UTC
    environment TEXT    NOT NULL,
    service     TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    checks      INTEGER NOT NULL,
    PRIMARY KEY (at, environment, service, status)
);
CREATE TABLE check_days (
    at          TEXT    NOT NULL, -- 2006-01-02, UTC
    environment TEXT    NOT NULL,
    service     TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    checks      INTEGER NOT NULL,
    PRIMARY KEY (at, environment, service, status)
);
INSERT INTO check_hours (at, environment, service, status, checks)
    SELECT substr(at, 1, 13), environment, service, status, COUNT(*) FROM checks GROUP BY 1, 2, 3, 4;
INSERT INTO check_days (at, environment, service, status, checks)
    SELECT substr(at, 1, 10), environment, service, status, COUNT(*) FROM checks GROUP BY 1, 2, 3, 4;

-- Everything that costs are summed from, so that no row has to be looked up.
CREATE INDEX idx_sessions_spent ON sessions (ended_at, environment, tier, model, cycle_id, started_at, cost_usd, input_tokens,
    output_tokens, cache_read_tokens, cache_write_tokens) WHERE ended_at IS NOT NULL;

CREATE INDEX idx_events_kind ON events (kind, id);
CREATE INDEX idx_events_service ON events (service, id);
CREATE INDEX idx_events_environment ON events (environment, id);
