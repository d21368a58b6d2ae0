-- Fewer pages to write when a session changes: no query needs these.

-- +goose Up

-- Sessions are looked up by environment only together with their end, which idx_sessions_cost does.
DROP INDEX idx_sessions_environment;
-- idx_sessions_spent begins with the same column and holds the cost as well.
DROP INDEX idx_sessions_ended;
