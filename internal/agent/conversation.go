package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"claudeops/internal/ops"
)

// fingerprint looks for the record the CLI keeps of a conversation and says what it holds. Its folder is named after the
// working folder by a rule of the CLI's own; the id is unique, so it is looked for in all of them.
func fingerprint(configDir, id string) ops.Fingerprint {
	if !idShape.MatchString(id) {
		return ops.Fingerprint{}
	}
	found, err := filepath.Glob(filepath.Join(configDir, "projects", "*", id+".jsonl"))
	if err != nil || len(found) != 1 {
		return ops.Fingerprint{}
	}
	f, err := read(found[0])
	if err != nil {
		return ops.Fingerprint{}
	}
	return f
}

func read(path string) (ops.Fingerprint, error) {
	file, err := os.Open(path)
	if err != nil {
		return ops.Fingerprint{}, err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err != nil {
		return ops.Fingerprint{}, err
	}
	return ops.Fingerprint{Path: path, Size: size, SHA: hex.EncodeToString(sum.Sum(nil))}, nil
}

// intact refuses a conversation whose record is not what its session left: the CLI itself would continue a damaged one
// without a word, as if the missing part had never been said.
func intact(spec ops.SessionSpec) error {
	want := spec.Conversation
	if spec.Resume == "" || want.Path == "" {
		return nil
	}
	got, err := read(want.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return refused("the record of conversation %s is gone", spec.Resume)
	case err != nil:
		return refused("the record of conversation %s cannot be read: %v", spec.Resume, cause(err))
	case got != want:
		return refused("the record of conversation %s was changed since its session ended (%d bytes, were %d)", spec.Resume, got.Size, want.Size)
	}
	return nil
}

func refused(format string, args ...any) error {
	return &startError{class: ops.FailureResumeRefused, text: fmt.Sprintf(format, args...)}
}

// resumeRefused reports whether the CLI did not know the conversation it was to continue, before it did anything.
func (s *session) resumeRefused() bool {
	if !s.resumed {
		return false
	}
	const unknown = "No conversation found"
	if strings.Contains(s.lastError, unknown) {
		return true
	}
	r := s.stream.result
	if r == nil || !r.failed() {
		return false
	}
	turns := whole(r.NumTurns)
	return strings.Contains(r.words(), unknown) || (r.Subtype == "error_during_execution" && (turns == nil || *turns == 0))
}
