package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"claudeops/internal/ops"
)

// A conversation id goes back to the CLI as an argument, so it must not look like an option.
// Compiled once; read only.
var idShape = ops.Pattern(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// ValidConversationID reports whether an id may go back to a CLI as an argument.
func ValidConversationID(id string) bool { return idShape().MatchString(id) }

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
	if err != nil {
		return nil, unreadable(spec, err)
	}
	return file, nil
}

func unreadable(spec ops.SessionSpec, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return Refuse(ops.FailureResumeRefused, "the record of conversation %s is gone", spec.Resume)
	}
	return Refuse(ops.FailureResumeRefused, "the record of conversation %s cannot be read: %v", spec.Resume, withoutPath(err))
}

// restore puts a kept record where the CLI looks for it, with what belongs to it: Codex also reads the records that one was
// forked from, Claude Code keeps long outputs of tools in files of their own.
func (f Folders) restore(spec ops.SessionSpec, record *os.File) error {
	if err := f.restoreOne(spec, spec.Conversation, record); err != nil {
		return err
	}
	for _, r := range companions(spec.Conversation.Path) {
		file, err := os.OpenFile(r.Path, readFlags, 0)
		if err != nil {
			return unreadable(spec, err)
		}
		err = f.restoreOne(spec, r, file)
		_ = file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// restoreOne refuses a record that is not what its session left: a CLI continues a damaged one without a message, as if the
// missing part had never been said.
func (f Folders) restoreOne(spec ops.SessionSpec, want ops.Fingerprint, record *os.File) error {
	to := io.Writer(io.Discard)
	if rel, ok := f.placeOf(want.Path); ok {
		file, err := createBelow(filepath.Join(f.Agent, rel))
		if err != nil {
			return Refuse(ops.FailureStart, "the record of conversation %s cannot be copied: %v", spec.Resume, err)
		}
		defer func() { _ = file.Close() }()
		to = file
	}
	got, err := copyRecord(to, record)
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
	rel, ok := below(filepath.Join(f.State, keptFolder), record)
	parts := strings.SplitN(rel, string(filepath.Separator), 3) // cycle, session and the rest
	if !ok || len(parts) < 3 {
		return "", false
	}
	return parts[2], true
}

// keep copies the record of a conversation out of the reach of agents and returns where it is kept.
func (f Folders) keep(spec ops.SessionSpec, record ops.Fingerprint, attachments func(record string) string) (ops.Fingerprint, error) {
	root, err := os.OpenRoot(f.Agent)
	if err != nil {
		return ops.Fingerprint{}, err
	}
	defer func() { _ = root.Close() }()
	kept, err := f.keepFile(root, spec.Session, record.Path)
	if err != nil {
		return ops.Fingerprint{}, err
	}
	if kept.SHA != record.SHA {
		return ops.Fingerprint{}, errors.New("it was changed after its session ended")
	}
	var with []ops.Fingerprint
	if attachments != nil {
		with = f.keepAttachments(root, spec.Session, attachments(record.Path))
	}
	if spec.Resume != "" && spec.Conversation.Path != "" {
		with = append(append(with, companions(spec.Conversation.Path)...), spec.Conversation)
	}
	return kept, noteCompanions(kept.Path, with)
}

// keepFile copies one file of the session.
func (f Folders) keepFile(root *os.Root, s ops.Session, name string) (ops.Fingerprint, error) {
	rel, ok := below(f.Agent, name)
	if !ok {
		return ops.Fingerprint{}, errors.New("it is not in the folders of the session")
	}
	from, err := root.OpenFile(rel, readFlags, 0)
	if err != nil {
		return ops.Fingerprint{}, err
	}
	defer func() { _ = from.Close() }()
	place := filepath.Join(f.kept(s.CycleID), strconv.FormatInt(int64(s.ID), 10), rel)
	to, err := createBelow(place)
	if err != nil {
		return ops.Fingerprint{}, err
	}
	kept, err := copyRecord(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		return ops.Fingerprint{}, err
	}
	kept.Path = place
	return kept, nil
}

// The most that is kept of the files a record refers to.
const (
	maxAttachments = 200
	maxAttached    = 64 << 20 // bytes
)

// keepAttachments copies the files of a folder. A conversation can be continued without them.
func (f Folders) keepAttachments(root *os.Root, s ops.Session, dir string) (out []ops.Fingerprint) {
	rel, ok := below(f.Agent, dir)
	if !ok {
		return nil
	}
	folder, err := root.Open(rel)
	if err != nil {
		return nil
	}
	defer func() { _ = folder.Close() }()
	entries, _ := folder.ReadDir(maxAttachments)
	left := int64(maxAttached)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > left {
			continue
		}
		if kept, err := f.keepFile(root, s, filepath.Join(dir, e.Name())); err == nil {
			out, left = append(out, kept), left-kept.Size
		}
	}
	return out
}

// kept is where the records of a cycle are.
func (f Folders) kept(id ops.CycleID) string {
	return filepath.Join(f.State, keptFolder, strconv.FormatInt(int64(id), 10))
}

const companionSuffix = ".companions" // the file beside a record that names its companions

// noteCompanions notes what a record needs beside it: the files it refers to, and the records it was forked from with theirs.
func noteCompanions(record string, with []ops.Fingerprint) error {
	if len(with) == 0 {
		return nil
	}
	data, err := json.Marshal(with)
	if err != nil {
		return err
	}
	return os.WriteFile(record+companionSuffix, data, 0o600)
}

// companions are what a record needs beside it. What cannot be read names none; then the CLI says what it misses.
func companions(record string) (out []ops.Fingerprint) {
	data, err := os.ReadFile(record + companionSuffix)
	if err == nil {
		_ = json.Unmarshal(data, &out)
	}
	return out
}

// createBelow makes a file with the folders above it.
func createBelow(name string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
}
