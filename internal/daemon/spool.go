package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"claudeops/internal/ops"
)

// errSpoolFull means that no more output is kept.
var errSpoolFull = errors.New("too much output waits for the database")

const (
	spoolSuffix = ".jsonl"
	// spoolBytes limits one session's file: beyond it the session is stopped, so that the disk does not fill up.
	spoolBytes = 64 << 20
	// spoolBatch is how many lines are delivered at a time.
	spoolBatch = 500
)

// spool is a folder with one file per session. It is safe for concurrent use.
type spool struct {
	dir string
	mu  sync.Mutex
}

// newSpool returns the spool in a folder, which is created when it is first needed.
func newSpool(dir string) *spool { return &spool{dir: dir} }

// spooledLine is a spooledLine of output in the file.
type spooledLine struct {
	Seq  int64     `json:"seq"`
	At   time.Time `json:"at"`
	Text string    `json:"text"`
	// Dropped is that of ops.Line.
	Dropped int64 `json:"dropped,omitempty"`
}

// Keep adds lines to a session's file. When it returns they are safe on disk.
func (s *spool) Keep(id ops.SessionID, lines []ops.Line) error {
	var b bytes.Buffer
	for _, l := range lines {
		raw, err := json.Marshal(spooledLine(l))
		if err != nil {
			return fmt.Errorf("keep output of session %d: %w", id, err)
		}
		b.Write(append(raw, '\n'))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return ops.Wrapped(s.append(id, b.Bytes()), "keep output of session %d", id)
}

func (s *spool) append(id ops.SessionID, raw []byte) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path(id), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Size()+int64(len(raw)) > spoolBytes:
		err = errSpoolFull
	default:
		if _, err = f.Write(raw); err == nil {
			err = f.Sync()
		}
	}
	return errors.Join(err, f.Close())
}

func (s *spool) path(id ops.SessionID) string {
	return filepath.Join(s.dir, strconv.FormatInt(int64(id), 10)+spoolSuffix)
}

// Holds reports whether the spool has output of the session. Later output must then be spooled too, to stay in order.
func (s *spool) Holds(id ops.SessionID) bool {
	_, err := os.Lstat(s.path(id))
	return err == nil
}

// Deliver passes all kept output to take, oldest session first, and removes what was taken. The file of a session that is refused
// permanently is renamed, so that it is not lost and does not block the others.
func (s *spool) Deliver(ctx context.Context, take func(ctx context.Context, id ops.SessionID, lines []ops.Line) error) error {
	ids, err := s.waiting()
	if err != nil {
		return fmt.Errorf("list kept output: %w", err)
	}
	for _, id := range ids {
		if err := s.deliver(ctx, id, take); err != nil {
			return fmt.Errorf("deliver output of session %d: %w", id, err)
		}
	}
	return nil
}

func (s *spool) waiting() ([]ops.SessionID, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []ops.SessionID
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), spoolSuffix)
		if n, err := strconv.ParseInt(name, 10, 64); ok && err == nil {
			out = append(out, ops.SessionID(n))
		}
	}
	return out, nil
}

// deliver holds the lock, so that nothing is added to a file that is about to be removed.
func (s *spool) deliver(ctx context.Context, id ops.SessionID, take func(context.Context, ops.SessionID, []ops.Line) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines, err := readSpool(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for len(lines) > 0 {
		n := min(spoolBatch, len(lines))
		err := take(ctx, id, lines[:n])
		if errors.Is(err, ops.ErrNotFound) || errors.Is(err, ops.ErrFenced) {
			return os.Rename(s.path(id), s.path(id)+".refused")
		}
		if err != nil {
			return err
		}
		lines = lines[n:]
	}
	return os.Remove(s.path(id))
}

// readSpool returns the complete lines of a file; an incomplete spooledLine at its end was never acknowledged.
func readSpool(path string) ([]ops.Line, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []ops.Line
	r := bufio.NewReader(bytes.NewReader(raw))
	for {
		text, err := r.ReadBytes('\n')
		if err != nil {
			return out, nil
		}
		var l spooledLine
		if json.Unmarshal(text, &l) == nil {
			out = append(out, ops.Line(l))
		}
	}
}
