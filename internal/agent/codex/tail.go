package codex

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"syscall"

	"claudeops/internal/ops"
)

// maxTail bounds how much of the record is read at once.
const maxTail = 8 << 20

// tail reads the record of a running session for what its calls of the model used: Codex prints that only at its end, too
// late for a budget. It belongs to the goroutine that reads the output.
type tail struct {
	home   string
	model  string
	st     *stream
	path   string
	offset int64
}

// usage are the calls of the model since it was asked last.
func (l *tail) usage() (out []ops.Activity) {
	if l.path == "" {
		if l.path = findRecord(l.home, l.st.thread); l.path == "" {
			return nil
		}
	}
	for line := range bytes.Lines(l.more()) {
		var r recordLine
		if !bytes.Contains(line, []byte(`"token_usage_record"`)) || json.Unmarshal(line, &r) != nil {
			continue
		}
		if r.Type != "token_usage_record" || r.Payload.Usage == nil {
			continue
		}
		u := *r.Payload.Usage
		out = append(out, ops.Activity{
			Kind: ops.ActivityUsage, Message: r.Payload.Response, Model: l.model, InputTokens: u.fresh(), OutputTokens: u.Output,
			CacheReadTokens: u.Cached, CacheWriteTokens: u.CacheWrite,
		})
	}
	return out
}

// more returns the whole lines that were added to the record. Whatever is wrong with it, the session goes on.
func (l *tail) more() []byte {
	// An agent behind walls can replace the file: a link is not followed, a pipe is not waited for.
	file, err := os.OpenFile(l.path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() <= l.offset {
		return nil
	}
	data, err := io.ReadAll(io.NewSectionReader(file, l.offset, maxTail))
	if err != nil {
		return nil
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 && len(data) == maxTail {
		end = len(data) // no line of ours is that long
	}
	l.offset += int64(end)
	return data[:end]
}
