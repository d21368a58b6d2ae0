package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"claudeops/internal/ops"
)

const (
	markEvery  = time.Second
	markName   = "mark" // the row of stateTable
	markSuffix = "-mark"
	markForm   = "%020d %s\n" // always the same length, so that it can be overwritten
)

// marks number the commits of about each second, first in the database and then in a file beside it. If the file has a higher number than
// the database, commits are gone that were on the disk: the end of the write-ahead log was lost, or an older copy was put in place of the
// database. Commits after the newest mark prove nothing.
type marks struct {
	path string

	mu   sync.Mutex
	on   bool      // this process works on the journal; commands that add a row do not mark it
	last time.Time // zero: the next commit gets a mark
}

// due reports whether the commit that is being made gets a mark.
func (m *marks) due() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.on || time.Since(m.last) < markEvery {
		return false
	}
	m.last = time.Now()
	return true
}

// next lets the next commit have a mark.
func (m *marks) next() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on, m.last = true, time.Time{}
}

// add numbers a commit in the database.
func (m *marks) add(ctx context.Context, tx Querier, at time.Time) (text string, err error) {
	n, _, err := marked(ctx, tx)
	if err != nil {
		return "", fmt.Errorf("read mark: %w", err)
	}
	text = fmt.Sprintf(markForm, n+1, at.UTC().Format(time.RFC3339))
	_, err = tx.ExecContext(ctx, `INSERT INTO `+stateTable+` (name, value) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, markName, strings.TrimSpace(text))
	return text, err
}

// write puts the number of a commit that is on the disk beside the database.
func (m *marks) write(text string) error {
	file, err := os.OpenFile(m.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteAt([]byte(text), 0)
	return errors.Join(err, file.Close())
}

// lost says which commits are gone; empty: none that is known.
func (m *marks) lost(ctx context.Context, q Querier) (string, error) {
	text, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	beside, until := readMark(string(text))
	n, since, err := marked(ctx, q)
	if err != nil || n >= beside {
		return "", err
	}
	if since == "" {
		since = "its beginning"
	}
	return fmt.Sprintf("the database has lost what was written between %s and %s: "+
		"the end of its log is missing, or an older copy was put in its place", since, until), nil
}

// marked is the newest mark in the database.
func marked(ctx context.Context, q Querier) (n int64, at string, err error) {
	text, err := One(ctx, q, ScanString, `SELECT value FROM `+stateTable+` WHERE name = ?`, markName)
	if errors.Is(err, ops.ErrNotFound) {
		return 0, "", nil
	}
	n, at = readMark(text)
	return n, at, err
}

// readMark reads a mark; what is none counts as older than all.
func readMark(text string) (n int64, at string) {
	if _, err := fmt.Sscanf(text, "%d %s", &n, &at); err != nil {
		return 0, ""
	}
	return n, at
}
