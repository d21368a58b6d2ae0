-- The trust in a service where it is lower than the configuration allows.

-- +goose Up

CREATE TABLE trust (
	environment TEXT NOT NULL,
	service     TEXT NOT NULL,
	level       TEXT NOT NULL,
	changed_by  TEXT NOT NULL,
	reason      TEXT NOT NULL,
	changed_at  TEXT NOT NULL,
	PRIMARY KEY (environment, service)
);
