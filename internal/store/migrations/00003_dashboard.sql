-- What the pages read in ranges: health by the hour, and events by what they are about.

-- +goose Up

-- How often each finding was made in an hour: months of health are read without reading every check.
CREATE TABLE check_hours (
    hour        TEXT    NOT NULL, -- 2006-01-02T15, UTC
    environment TEXT    NOT NULL,
    service     TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    checks      INTEGER NOT NULL,
    PRIMARY KEY (hour, environment, service, status)
);
INSERT INTO check_hours (hour, environment, service, status, checks)
    SELECT substr(at, 1, 13), environment, service, status, COUNT(*) FROM checks GROUP BY 1, 2, 3, 4;

CREATE INDEX idx_events_kind ON events (kind, id);
CREATE INDEX idx_events_service ON events (service, id);
