// Package transcript makes the recorded output of an agent readable: one line gives the parts that a page or a terminal shows.
// It knows the streams of Claude Code and Codex; any other text is what the agent printed. It decides nothing.
package transcript

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Kind is what a part of a line is.
type Kind int

// The kinds.
const (
	Stdout   Kind = iota // text that is not an event
	Stderr               // text on standard error, which is recorded as an event
	Start                // the agent starts, with its model and tools
	Retry                // the model API failed and is called again
	Text                 // what the agent says
	Prompt               // what the agent is told
	Thinking             // what the agent says to itself
	Call                 // a tool is called
	Output               // what a tool returned
	Result               // the end of the session
	Dropped              // output that was too much to keep
	Withheld             // output that could not be searched for secrets
	Event                // anything else
)

// Part is one readable part of a line.
type Part struct {
	Kind    Kind
	Tool    string // the tool that is called or answers
	Text    string
	Paths   []string // files that a call names
	Call    string   // the id of the call that it makes
	Answer  string   // the id of the call that it answers
	Failed  bool
	Figures Figures // of a result
}

// Figures are what the agent reported at its end; nil where it reported nothing.
type Figures struct {
	Turns    *int64
	Duration *time.Duration
	CostUSD  *float64
	Tokens   *Tokens
}

// Tokens are what a model read and wrote.
type Tokens struct{ Read, Written int64 }

// DroppedOutput is the type of the event that replaces output that was too much to keep.
const DroppedOutput = "dropped"

// Read returns the parts of a line, at least one.
func Read(line string) []Part {
	var e event
	if !strings.HasPrefix(strings.TrimSpace(line), "{") || !decode([]byte(line), &e) || e.Type == "" {
		return []Part{{Kind: Stdout, Text: line}}
	}
	switch e.Type {
	case "stderr":
		return []Part{{Kind: Stderr, Text: e.Text}}
	case DroppedOutput:
		return []Part{{Kind: Dropped, Text: e.Text}}
	case "redacted":
		return []Part{{Kind: Withheld, Text: e.Text}}
	case "system", "assistant", "user", "result":
		return e.claude()
	}
	if family, _, _ := strings.Cut(e.Type, "."); family == "thread" || family == "turn" || family == "item" || family == "error" {
		return []Part{readCodex(line, e)}
	}
	return []Part{e.other()}
}

// event holds the fields that are read from a line of either stream.
type event struct {
	Type    string   `json:"type"`
	Subtype string   `json:"subtype"`
	Model   string   `json:"model"`
	Tools   []string `json:"tools"`
	Attempt int      `json:"attempt"`
	Retries int      `json:"max_retries"`
	Error   any      `json:"error"`
	Text    string   `json:"text"`
	Message struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	IsError  bool     `json:"is_error"`
	Result   string   `json:"result"`
	Errors   []string `json:"errors"`
	Turns    *int64   `json:"num_turns"`
	Duration *int64   `json:"duration_ms"`
	Cost     *float64 `json:"total_cost_usd"`
}

func (e event) other() Part {
	return Part{Kind: Event, Text: strings.TrimSpace(e.Type + " " + e.Subtype)}
}

// decode reports whether the data is JSON. A field of the wrong type does not affect the others.
func decode(data []byte, into any) bool {
	err := json.Unmarshal(data, into)
	_, wrongType := err.(*json.UnmarshalTypeError) //nolint:errorlint // returned unwrapped
	return err == nil || wrongType
}

// Word names the kind of a part.
func (p Part) Word() string {
	switch p.Kind {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	case Start:
		return "start"
	case Retry:
		return "retry"
	case Text:
		return "text"
	case Prompt:
		return "prompt"
	case Thinking:
		return "thinking"
	case Call:
		return "call"
	case Output:
		if p.Failed {
			return "failed"
		}
		return "output"
	case Result:
		return "result"
	case Dropped:
		return "dropped"
	case Withheld:
		return "withheld"
	case Event:
	}
	return "event"
}

// refusals are the sentences in which programs say that the kernel refused them a file or an address, which is their first or
// second group. Lines of logs, which say so of others, do not begin with the name of a program and a colon.
var refusals = sync.OnceValue(func() []*regexp.Regexp {
	const (
		why     = `(?i:permission denied|read-only file system|operation not permitted)`
		program = `^(?:/[\w./+-]*/)?[\w.+-]+: (?:line )?(?:\d+: )?`
	)
	var out []*regexp.Regexp
	for _, text := range []string{
		program + `.*connect to (?:host )?([\w.:-]+) (port \d+).*: ` + why + `$`, // nc, ssh
		program + `.*['"‘“]([^'"‘’“”]+)['"’”](?:: [\w ]+)?: ` + why + `$`,        // touch: cannot touch 'x'
		program + `(?:[\w ]+ )?(/[^:]*): ` + why + `$`,                           // cat: /x, sh: 1: cannot create /x, open /x
		`^\w*Error: \[Errno \d+\] ` + why + `: '([^']+)'$`,                       // Python
		`\bE(?:ACCES|ROFS|PERM): [\w -]+, \w+ '([^']+)'`,                         // Node, and with it the tools of Claude Code
	} {
		out = append(out, regexp.MustCompile(text))
	}
	return out
})

// Refused returns the files and addresses that the kernel refused to the tools whose answers are in the line, by what they say.
func Refused(line string) []string {
	if !strings.Contains(line, "ermission denied") && !strings.Contains(line, "ead-only file system") &&
		!strings.Contains(line, "not permitted") {
		return nil
	}
	var out []string
	for _, p := range Read(line) {
		if p.Kind != Output && p.Kind != Stderr {
			continue
		}
		for text := range strings.Lines(p.Text) {
			if what := refusedIn(strings.TrimSpace(text)); what != "" {
				out = append(out, what)
			}
		}
	}
	return out
}

func refusedIn(text string) string {
	const longest = 1024
	if len(text) > longest {
		return ""
	}
	for _, sentence := range refusals() {
		if found := sentence.FindStringSubmatch(text); found != nil {
			return strings.Join(found[1:], " ")
		}
	}
	return ""
}
