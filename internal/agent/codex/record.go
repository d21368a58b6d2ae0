package codex

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// maxRecord is more than any record should be: an agent behind walls can write to it.
const maxRecord = 256 << 20

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
	data, err := os.ReadFile(name)
	if err != nil {
		return l
	}
	for line := range bytes.Lines(data) {
		l.read(line)
	}
	return l
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

// judge adds a failure that Codex itself reported.
func (d *decoder) judge(res *ops.RunResult, lastError string) {
	switch {
	// Codex did not know the conversation that it was to continue.
	case d.spec.Resume != "" && !d.began && *res.ExitCode != 0 && strings.Contains(lastError, "thread/fork"):
		res.Failure, res.Err = ops.FailureResumeRefused, name+" could not continue the conversation: "+lastError
	case d.failed:
		r := reported(d.failure)
		res.Failure, res.Err = r.class, r.text
		if res.Stop == ops.StopNone {
			res.APIStatus = r.status
		}
	}
}

// Compiled once; read only. Codex puts the status of the API into its message.
var (
	statusShape = ops.Pattern(`(?:unexpected status|last status:) (\d{3})\b[^:]*:?\s*(.*)$`)
	urlShape    = ops.Pattern(`, (?:url|request id|cf-ray): [^\s,]+`)
)

// report is a failure that Codex itself reported.
type report struct {
	class  ops.FailureClass
	text   string
	status *int // of the API, where Codex tells it
}

// reported reads the message of a turn that failed, as measured with 0.166.0. A turn fails when the API does.
func reported(message string) report {
	message = urlShape().ReplaceAllString(message, "")
	if m := statusShape().FindStringSubmatch(message); m != nil {
		r := report{class: ops.FailureAPI, text: "the API answered " + m[1]}
		if m[2] != "" {
			r.text += ": " + m[2]
		}
		if status, err := strconv.Atoi(m[1]); err == nil {
			r.status = &status
		}
		return r
	}
	// What the API says of a bad request comes as it was sent.
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(message), &body) == nil && body.Error.Message != "" {
		return report{class: ops.FailureAPI, text: "the API answered 400: " + body.Error.Message, status: ops.Ptr(http.StatusBadRequest)}
	}
	for _, known := range knownMessages() {
		if strings.Contains(message, known.words) {
			r := report{class: known.class, text: known.says + ": " + message}
			if known.status != 0 {
				r.status = ops.Ptr(known.status)
			}
			return r
		}
	}
	return report{class: ops.FailureAPI, text: "the API failed: " + message}
}

type knownMessage struct {
	words  string
	class  ops.FailureClass
	says   string
	status int // what the API answered, which Codex does not repeat; 0 when it is not known
}

// knownMessages are the texts that Codex prints instead of what the API answered.
func knownMessages() []knownMessage {
	const api = "the API failed"
	return []knownMessage{
		{"ran out of room in the model's context window", ops.FailurePromptTooLong, api, 0},
		{"Quota exceeded", ops.FailureBilling, api, http.StatusTooManyRequests},
		{"rate limit exceeded", ops.FailureAPI, api, http.StatusTooManyRequests},
		{"experiencing high demand", ops.FailureAPI, api, http.StatusInternalServerError},
		{"does not exist or you do not have access to it", ops.FailureModelNotFound, api, http.StatusNotFound},
		{"Missing environment variable", ops.FailureAgent, name + " has no key for the API", 0},
	}
}
