-- Fewer pages to write when a session changes: no query looks sessions up by their environment alone.

-- +goose Up

DROP INDEX IF EXISTS idx_sessions_environment;
