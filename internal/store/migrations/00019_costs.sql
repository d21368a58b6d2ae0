-- What sessions cost, added up when they end.

-- +goose Up

-- By the UTC day on which sessions ended. A cost is in billionths of a dollar, so that sums are exact whatever the order. Beside each
-- figure is how many sessions reported it. services is the JSON list of the cycle's last decision that names services.
CREATE TABLE cost_days (
    day                  TEXT    NOT NULL,
    environment          TEXT    NOT NULL,
    tier                 INTEGER NOT NULL,
    model                TEXT    NOT NULL,
    "trigger"            TEXT    NOT NULL,
    services             TEXT    NOT NULL,
    sessions             INTEGER NOT NULL,
    cost                 INTEGER NOT NULL,
    cost_reported        INTEGER NOT NULL,
    input                INTEGER NOT NULL,
    input_reported       INTEGER NOT NULL,
    output               INTEGER NOT NULL,
    output_reported      INTEGER NOT NULL,
    cache_read           INTEGER NOT NULL,
    cache_read_reported  INTEGER NOT NULL,
    cache_write          INTEGER NOT NULL,
    cache_write_reported INTEGER NOT NULL,
    PRIMARY KEY (day, environment, tier, model, "trigger", services)
);
INSERT INTO cost_days
    SELECT r.day, r.environment, r.tier, r.model, r."trigger", r.services, COUNT(r.started_at), COALESCE(SUM(r.cost), 0), COUNT(r.cost),
        COALESCE(SUM(r.input_tokens), 0), COUNT(r.input_tokens), COALESCE(SUM(r.output_tokens), 0), COUNT(r.output_tokens),
        COALESCE(SUM(r.cache_read_tokens), 0), COUNT(r.cache_read_tokens), COALESCE(SUM(r.cache_write_tokens), 0),
        COUNT(r.cache_write_tokens)
    FROM (SELECT substr(s.ended_at, 1, 10) AS day, s.environment, s.tier, s.model, c."trigger",
            COALESCE((SELECT e.services FROM escalations e WHERE e.cycle_id = s.cycle_id AND e.services IS NOT NULL
                ORDER BY e.id DESC LIMIT 1), '') AS services,
            s.started_at, CAST(FLOOR(CASE WHEN s.cost_usd > 1e6 THEN 1e6 ELSE s.cost_usd END * 1e9 + 0.5) AS BIGINT) AS cost,
            s.input_tokens, s.output_tokens, s.cache_read_tokens, s.cache_write_tokens
        FROM sessions s JOIN cycles c ON c.id = s.cycle_id
        WHERE s.ended_at IS NOT NULL AND (s.started_at IS NOT NULL OR s.cost_usd IS NOT NULL)) r
    GROUP BY r.day, r.environment, r.tier, r.model, r."trigger", r.services;

-- What cycles cost as a whole, in billionths of a dollar, written when they end: a row for each day on which a session of theirs ended.
-- All columns are in the key, so that the most expensive ones of a day are found in it.
CREATE TABLE cycle_cost_days (
    day         TEXT    NOT NULL,
    cost        INTEGER NOT NULL,
    cycle_id    INTEGER NOT NULL,
    environment TEXT    NOT NULL,
    PRIMARY KEY (day, cost, cycle_id, environment)
);
INSERT INTO cycle_cost_days
    SELECT DISTINCT substr(s.ended_at, 1, 10), t.cost, c.id, c.environment
    FROM cycles c
    JOIN (SELECT s.cycle_id, SUM(CAST(FLOOR(CASE WHEN s.cost_usd > 1e6 THEN 1e6 ELSE s.cost_usd END * 1e9 + 0.5) AS BIGINT)) AS cost
        FROM sessions s WHERE s.ended_at IS NOT NULL AND s.cost_usd IS NOT NULL GROUP BY s.cycle_id) t ON t.cycle_id = c.id
    JOIN sessions s ON s.cycle_id = c.id
    WHERE c.ended_at IS NOT NULL AND s.ended_at IS NOT NULL AND (s.started_at IS NOT NULL OR s.cost_usd IS NOT NULL);

-- These tables replace them.
DROP INDEX IF EXISTS idx_sessions_spent;
DROP INDEX IF EXISTS idx_sessions_cost;
