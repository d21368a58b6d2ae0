package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"regexp"

	"claudeops/internal/ops"
)

// A conversation id goes back to the CLI as an argument, so it must not look like an option.
// Compiled once; read only.
var idShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// ValidConversationID reports whether an id may go back to a CLI as an argument.
func ValidConversationID(id string) bool { return idShape.MatchString(id) }

// FingerprintOf describes the content of a conversation's record; it is empty when the record cannot be read.
func FingerprintOf(path string) ops.Fingerprint {
	f, err := fingerprint(path)
	if err != nil {
		return ops.Fingerprint{}
	}
	return f
}

func fingerprint(path string) (ops.Fingerprint, error) {
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

// CheckConversation refuses to continue a conversation whose record is not what its session left: a CLI continues a damaged
// one without a message, as if the missing part had never been said.
func CheckConversation(spec ops.SessionSpec) error {
	want := spec.Conversation
	if spec.Resume == "" || want.Path == "" {
		return nil
	}
	got, err := fingerprint(want.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return Refuse(ops.FailureResumeRefused, "the record of conversation %s is gone", spec.Resume)
	case err != nil:
		return Refuse(ops.FailureResumeRefused, "the record of conversation %s cannot be read: %v", spec.Resume, withoutPath(err))
	case got != want:
		return Refuse(ops.FailureResumeRefused, "the record of conversation %s was changed since its session ended (%d bytes, were %d)",
			spec.Resume, got.Size, want.Size)
	}
	return nil
}
