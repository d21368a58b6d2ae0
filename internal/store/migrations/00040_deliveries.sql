-- Whom a notice has reached.

-- +goose Up

-- The targets that took the notice, as JSON: route, name of the target, time. Notices that were sent before have none on record.
ALTER TABLE notifications ADD COLUMN deliveries TEXT NOT NULL DEFAULT '';
