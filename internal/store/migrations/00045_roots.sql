-- The first messages of problems, for channels that tell each problem in a thread.

-- +goose Up

-- thread is what all notices of one problem share: a cycle. message is the id at the channel; text is what it says, so that it can be shown
-- again with what became of it.
CREATE TABLE notice_roots (
    target  TEXT    NOT NULL,
    thread  INTEGER NOT NULL,
    message TEXT    NOT NULL,
    text    TEXT    NOT NULL,
    at      TEXT    NOT NULL,
    PRIMARY KEY (target, thread)
);
CREATE INDEX idx_notice_roots_message ON notice_roots (target, message);
