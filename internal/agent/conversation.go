package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"

	"claudeops/internal/ops"
)

// A conversation id goes back to the CLI as an argument, so it must not look like an option.
// Compiled once; read only.
var idShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// ValidConversationID reports whether an id may go back to a CLI as an argument.
func ValidConversationID(id string) bool { return idShape.MatchString(id) }

// maxRecord bounds the record of a conversation that is kept: an agent can write to it.
const maxRecord = 1 << 30

// readFlags open a file that an agent may have replaced: a link is not followed, a pipe is not waited for.
const readFlags = os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// FingerprintOf describes the content of a conversation's record; it is empty when the record cannot be read.
func FingerprintOf(path string) ops.Fingerprint {
	file, err := os.OpenFile(path, readFlags, 0)
	if err != nil {
		return ops.Fingerprint{}
	}
	defer func() { _ = file.Close() }()
	f, err := copyRecord(io.Discard, file)
	if err != nil {
		return ops.Fingerprint{}
	}
	f.Path = path
	return f
}

// copyRecord copies a record and describes what it copied.
func copyRecord(to io.Writer, from *os.File) (ops.Fingerprint, error) {
	info, err := from.Stat()
	if err != nil {
		return ops.Fingerprint{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxRecord {
		return ops.Fingerprint{}, errors.New("it is not a file of usual size")
	}
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(from, maxRecord))
	if err != nil {
		return ops.Fingerprint{}, err
	}
	return ops.Fingerprint{Size: size, SHA: hex.EncodeToString(sum.Sum(nil))}, nil
}

// openRecord opens the record of the conversation that a session continues; nil when there is none to check.
func openRecord(spec ops.SessionSpec) (*os.File, error) {
	if spec.Resume == "" || spec.Conversation.Path == "" {
		return nil, nil //nolint:nilnil // no record is an answer
	}
	file, err := os.OpenFile(spec.Conversation.Path, readFlags, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, Refuse(ops.FailureResumeRefused, "the record of conversation %s is gone", spec.Resume)
	case err != nil:
		return nil, unreadable(spec, err)
	}
	return file, nil
}

func unreadable(spec ops.SessionSpec, err error) error {
	return Refuse(ops.FailureResumeRefused, "the record of conversation %s cannot be read: %v", spec.Resume, withoutPath(err))
}

// restore puts a kept record where the CLI looks for it. It refuses one that is not what its session left: a CLI continues a
// damaged one without a message, as if the missing part had never been said.
func (f Folders) restore(spec ops.SessionSpec, record *os.File) error {
	to := io.Writer(io.Discard)
	if rel, ok := f.placeOf(spec.Conversation.Path); ok {
		place := filepath.Join(f.Agent, rel)
		file, err := createBelow(place)
		if err != nil {
			return Refuse(ops.FailureStart, "the record of conversation %s cannot be copied: %v", spec.Resume, err)
		}
		defer func() { _ = file.Close() }()
		to = file
	}
	got, err := copyRecord(to, record)
	want := spec.Conversation
	switch {
	case err != nil:
		return unreadable(spec, err)
	case got.Size != want.Size || got.SHA != want.SHA:
		return Refuse(ops.FailureResumeRefused, "the record of conversation %s was changed since its session ended (%d bytes, were %d)",
			spec.Resume, got.Size, want.Size)
	}
	return nil
}

// placeOf returns where a record was in the folders of its own session, relative to them.
func (f Folders) placeOf(record string) (string, bool) {
	if rel, ok := below(filepath.Join(f.State, keptFolder), record); ok {
		return afterElements(rel, 2) // cycle and session
	}
	return below(f.Agent, record) // as versions before this one kept it
}

// keep copies the record of a conversation out of the reach of agents and returns where it is kept.
func (f Folders) keep(s ops.Session, record ops.Fingerprint) (ops.Fingerprint, error) {
	rel, ok := below(f.Agent, record.Path)
	if !ok {
		return ops.Fingerprint{}, errors.New("it is not in the folders of the session")
	}
	root, err := os.OpenRoot(f.Agent)
	if err != nil {
		return ops.Fingerprint{}, err
	}
	defer func() { _ = root.Close() }()
	from, err := root.OpenFile(rel, readFlags, 0)
	if err != nil {
		return ops.Fingerprint{}, err
	}
	defer func() { _ = from.Close() }()
	place := filepath.Join(
		f.State, keptFolder, strconv.FormatInt(int64(s.CycleID), 10), strconv.FormatInt(int64(s.ID), 10), rel,
	)
	to, err := createBelow(place)
	if err != nil {
		return ops.Fingerprint{}, err
	}
	kept, err := copyRecord(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		return ops.Fingerprint{}, err
	}
	kept.Path = place
	if kept.SHA != record.SHA {
		return ops.Fingerprint{}, fmt.Errorf("it was changed after its session ended")
	}
	return kept, nil
}

// createBelow makes a file with the folders above it.
func createBelow(name string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
}
