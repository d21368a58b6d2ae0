-- What the engine reads before it starts cycles does not grow with the queue.

-- +goose Up

CREATE INDEX idx_cycles_queued ON cycles (environment, id) WHERE status = 'queued' AND wake_at IS NULL;
CREATE INDEX idx_cycles_due ON cycles (id) WHERE ended_at IS NULL AND (status = 'running' OR wake_at IS NOT NULL OR cancel_requested_at IS NOT NULL);
