-- Output in compressed blocks.

-- +goose Up

-- Lines of a session that follow each other without a gap, compressed with zstd. A line is either here or in transcript, never in both:
-- transcript holds the lines that came a few at a time, until they are packed some time after the session has ended. bytes is the size
-- of the lines before compression. data holds, for each line: the microseconds since the line before (for the first one since 1970), as
-- a signed varint, the length as a varint, and the text.
CREATE TABLE transcript_blocks (
    session_id INTEGER NOT NULL,
    last_seq   INTEGER NOT NULL,
    first_seq  INTEGER NOT NULL,
    lines      INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    data       BLOB    NOT NULL,
    PRIMARY KEY (session_id, last_seq)
);
