package codex

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"claudeops/internal/agent"
)

// maxRecord is more than any record should be: an agent behind walls can write to it.
const maxRecord = 1 << 30

// ledger is what the record of a conversation says of its tokens.
type ledger struct {
	calls   int64  // of the model, in this thread only
	own     *usage // their sum
	thread  *usage // of the thread with the conversation it was forked from
	context int64  // tokens of the last call
	window  int64
}

// findRecord returns the file in which Codex keeps a conversation, or nothing.
func findRecord(home, thread string) string {
	if !agent.ValidConversationID(thread) {
		return ""
	}
	found, err := fs.Glob(os.DirFS(home), path.Join(keptInHome, "*", "*", "*", "rollout-*-"+thread+".jsonl"))
	if err != nil || len(found) != 1 {
		return ""
	}
	file := filepath.Join(home, found[0])
	// Opening something else, such as a pipe, could wait without end.
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return file
}

type recordLine struct {
	Type    string `json:"type"`
	Payload struct {
		Type     string `json:"type"`
		Response string `json:"response_id"`
		Usage    *usage `json:"usage"`
		Thread   *usage `json:"thread_token_usage"`
		Info     *struct {
			Total  *usage `json:"total_token_usage"`
			Last   *usage `json:"last_token_usage"`
			Window int64  `json:"model_context_window"`
		} `json:"info"`
	} `json:"payload"`
}

// readRecord reads what a record says of tokens. What cannot be read says nothing.
func readRecord(name string) ledger {
	var l ledger
	if name == "" {
		return l
	}
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRecord {
		return l
	}
	file, err := os.Open(name)
	if err != nil {
		return l
	}
	defer func() { _ = file.Close() }()
	in := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			l.read(line)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return ledger{}
			}
			return l
		}
	}
}

func (l *ledger) read(line []byte) {
	if !bytes.Contains(line, []byte(`"token_usage_record"`)) && !bytes.Contains(line, []byte(`"token_count"`)) {
		return
	}
	var r recordLine
	if json.Unmarshal(line, &r) != nil {
		return
	}
	p := r.Payload
	switch {
	case r.Type == "token_usage_record" && p.Usage != nil:
		l.calls++
		sum := *p.Usage
		if l.own != nil {
			sum = l.own.plus(*p.Usage)
		}
		l.own = &sum
		if p.Thread != nil {
			l.thread = p.Thread
		}
	case r.Type == "event_msg" && p.Type == "token_count" && p.Info != nil:
		if p.Info.Total != nil {
			l.thread = p.Info.Total
		}
		if p.Info.Last != nil && p.Info.Last.Total > 0 {
			l.context = p.Info.Last.Total
		}
		l.window = max(p.Info.Window, 0)
	}
}
