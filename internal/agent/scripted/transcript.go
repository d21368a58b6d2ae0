package scripted

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
)

// errNoConversation means that a conversation to be resumed is not there.
var errNoConversation = errors.New("no conversation found")

// record is one message of a conversation as it is kept on disk.
type record struct {
	Type       string          `json:"type"`
	UUID       string          `json:"uuid"`
	ParentUUID *string         `json:"parentUuid"`
	SessionID  string          `json:"sessionId"`
	CWD        string          `json:"cwd"`
	Timestamp  string          `json:"timestamp"`
	Message    json.RawMessage `json:"message"`
}

// transcript keeps a conversation, so that a later process can continue it.
type transcript struct {
	file      *os.File // nil when there is no folder to keep it in
	sessionID string
	cwd       string
	last      *string
}

// readHistory returns the messages of an earlier conversation. Like the real program it skips what it cannot read, and
// takes a file without any readable message for no conversation.
func readHistory(dir, id string) ([]record, error) {
	if dir == "" || !validID(id) {
		return nil, errNoConversation
	}
	data, err := os.ReadFile(transcriptPath(dir, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoConversation
	}
	if err != nil {
		return nil, fmt.Errorf("read conversation: %w", err)
	}
	var out []record
	lines := bufio.NewReader(bytes.NewReader(data))
	for {
		line, err := lines.ReadBytes('\n')
		var r record
		if json.Unmarshal(line, &r) == nil && (r.Type == "user" || r.Type == "assistant") && len(r.Message) > 0 {
			out = append(out, r)
		}
		if errors.Is(err, io.EOF) {
			break
		}
	}
	if len(out) == 0 {
		return nil, errNoConversation
	}
	return out, nil
}

// createTranscript starts the file of a new conversation, with the history of the one it forks from.
func createTranscript(dir, id, cwd string, history []record) (*transcript, error) {
	t := &transcript{sessionID: id, cwd: cwd}
	if dir == "" {
		return t, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create conversation folder: %w", err)
	}
	file, err := os.OpenFile(transcriptPath(dir, id), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("session ID %s is already in use", id)
	}
	if err != nil {
		return nil, fmt.Errorf("create conversation: %w", err)
	}
	t.file = file
	for _, r := range history {
		r.SessionID = id
		if err := t.append(r); err != nil {
			return nil, errors.Join(err, t.close())
		}
	}
	return t, nil
}

// continueTranscript goes on with the file of an earlier conversation.
func continueTranscript(dir, id, cwd string, history []record) (*transcript, error) {
	file, err := os.OpenFile(transcriptPath(dir, id), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("continue conversation: %w", err)
	}
	return &transcript{file: file, sessionID: id, cwd: cwd, last: &history[len(history)-1].UUID}, nil
}

func transcriptPath(dir, id string) string { return filepath.Join(dir, id+".jsonl") }

// add keeps one message.
func (t *transcript) add(m message) error {
	data, err := encode(m)
	if err != nil {
		return err
	}
	return t.append(record{
		Type: m.Role, UUID: uuid.NewString(), ParentUUID: t.last, SessionID: t.sessionID, CWD: t.cwd,
		Timestamp: time.Now().UTC().Format(time.RFC3339Nano), Message: bytes.TrimSpace(data),
	})
}

func (t *transcript) append(r record) error {
	t.last = &r.UUID
	if t.file == nil {
		return nil
	}
	line, err := encode(r)
	if err != nil {
		return err
	}
	if _, err := t.file.Write(line); err != nil {
		return fmt.Errorf("keep conversation: %w", err)
	}
	return nil
}

func (t *transcript) close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
