-- People know a cycle by its problem.

-- +goose Up

-- What is wrong, in one line; empty until known.
ALTER TABLE cycles ADD COLUMN problem TEXT NOT NULL DEFAULT '';
