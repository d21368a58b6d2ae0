-- Signed requests that were received, so that one that is sent a second time is recognised.

-- +goose Up

CREATE TABLE webhook_receipts (
    signature  TEXT NOT NULL PRIMARY KEY,
    expires_at TEXT NOT NULL
);
CREATE INDEX idx_webhook_receipts_expires ON webhook_receipts (expires_at);
