-- Events for receivers outside.

-- +goose Up

-- What changed, in the order in which it was found. event_id is made from the row that changed, so that nothing is found twice, and it
-- stays the same however often the event is sent. data is the event as it is sent.
CREATE TABLE outgoing_events (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id    TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    environment TEXT    NOT NULL,
    at          TEXT    NOT NULL,
    data        TEXT    NOT NULL
);
CREATE UNIQUE INDEX idx_outgoing_events_event ON outgoing_events (event_id);
CREATE INDEX idx_outgoing_events_at ON outgoing_events (at);

-- How far each receiver has got: the last event that it took.
CREATE TABLE event_targets (
    name     TEXT    PRIMARY KEY,
    taken    INTEGER NOT NULL
);

-- What ended lately.
CREATE INDEX idx_incidents_resolved ON incidents (resolved_at) WHERE resolved_at IS NOT NULL;
CREATE INDEX idx_approvals_answered ON approvals (answered_at) WHERE answered_at IS NOT NULL;
CREATE INDEX idx_action_runs_ended ON action_runs (ended_at) WHERE ended_at IS NOT NULL;
