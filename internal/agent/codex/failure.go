package codex

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

// judge adds a failure that Codex itself reported.
func (d *decoder) judge(res *ops.RunResult, lastError string) {
	switch {
	case d.resumeRefused(res, lastError):
		res.Failure, res.Err = ops.FailureResumeRefused, name+" could not continue the conversation: "+lastError
	case d.failed:
		r := reported(d.failure)
		res.Failure, res.Err = r.class, r.text
		if res.Stop == ops.StopNone {
			res.APIStatus = r.status
		}
	}
}

// resumeRefused reports whether Codex did not know the conversation it was to continue, before it did anything.
func (d *decoder) resumeRefused(res *ops.RunResult, lastError string) bool {
	return d.spec.Resume != "" && !d.began && *res.ExitCode != 0 && strings.Contains(lastError, "thread/fork")
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
