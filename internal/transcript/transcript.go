// Package transcript makes the recorded output of an agent readable: one line gives the parts that a page or a terminal shows.
// It knows the streams of Claude Code and Codex; any other text is what the agent printed. It decides nothing.
package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Kind is what a part of a line is, in a word.
type Kind string

// The kinds.
const (
	Stdout   Kind = "stdout"   // text that is not an event
	Stderr   Kind = "stderr"   // text on standard error, which is recorded as an event
	Start    Kind = "start"    // the agent starts, with its model and tools
	Retry    Kind = "retry"    // the model API failed and is called again
	Text     Kind = "text"     // what the agent says
	Prompt   Kind = "prompt"   // what the agent is told
	Thinking Kind = "thinking" // what the agent says to itself
	Call     Kind = "call"     // a tool is called
	Output   Kind = "output"   // what a tool returned
	Result   Kind = "result"   // the end of the session
	Dropped  Kind = "dropped"  // output that was too much to keep
	Withheld Kind = "withheld" // output that could not be searched for secrets
	Event    Kind = "event"    // anything else
)

// Part is one readable part of a line.
type Part struct {
	Kind    Kind
	Tool    string // the tool that is called or answers
	Text    string
	Paths   []string // files that a call names
	Call    string   // the id of the call that it makes
	Answer  string   // the id of the call that it answers
	Input   string   // of that call, where the answer repeats it: JSON
	Failed  bool
	Refused bool    // the call did not run; what gates refused is for the reader to find out
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

// Read returns the parts of a line, at least one.
func Read(line string) []Part {
	var e event
	if !strings.HasPrefix(strings.TrimSpace(line), "{") || !decode([]byte(line), &e) || e.Type == "" {
		return []Part{{Kind: Stdout, Text: line}}
	}
	switch e.Type {
	case "stderr":
		return []Part{{Kind: Stderr, Text: e.Text}}
	case "dropped":
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

// Word names the kind of a part, and what became of a call.
func (p Part) Word() string {
	switch {
	case p.Kind == Output && p.Refused:
		return "refused"
	case p.Kind == Output && p.Failed:
		return "failed"
	}
	return string(p.Kind)
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

// block is one content block of a message of Claude Code.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

func (e event) claude() []Part {
	switch {
	case e.Type == "system" && e.Subtype == "init":
		tools := fmt.Sprintf("%d tools", len(e.Tools))
		if len(e.Tools) == 1 {
			tools = "1 tool"
		}
		return []Part{{Kind: Start, Text: fmt.Sprintf("%s with %s: %s", e.Model, tools, strings.Join(e.Tools, ", "))}}
	case e.Type == "system" && e.Subtype == "api_retry":
		return []Part{{Kind: Retry, Text: fmt.Sprintf("The model API failed (%v). Retrying, attempt %d of %d.", e.Error, e.Attempt, e.Retries)}}
	case e.Type == "system":
		return []Part{{Kind: Event, Text: e.Subtype}}
	case e.Type == "result":
		return []Part{e.result()}
	}
	return e.message()
}

// message returns what the agent says or is told. A part that is not understood is shown as it is.
func (e event) message() []Part {
	speaker := Part{Kind: Text}
	if e.Type == "user" {
		speaker.Kind = Prompt
	}
	content := e.Message.Content
	var said string
	if json.Unmarshal(content, &said) == nil || len(content) == 0 {
		speaker.Text = said
		return []Part{speaker}
	}
	var blocks []block
	if json.Unmarshal(content, &blocks) != nil {
		return []Part{{Kind: Event, Text: string(content)}}
	}
	parts := make([]Part, 0, len(blocks))
	for _, b := range blocks {
		parts = append(parts, b.part(speaker))
	}
	if len(parts) == 0 {
		return []Part{speaker}
	}
	return parts
}

func (b block) part(speaker Part) Part {
	switch b.Type {
	case "text":
		speaker.Text = b.Text
		return speaker
	case "thinking":
		return Part{Kind: Thinking, Text: b.Thinking}
	case "tool_use":
		text, paths := arguments(b.Input)
		return Part{Kind: Call, Tool: b.Name, Text: text, Paths: paths, Call: b.ID}
	case "tool_result":
		return Part{Kind: Output, Text: returned(b.Content), Answer: b.ToolUseID, Failed: b.IsError}
	}
	return Part{Kind: Event, Text: b.Type}
}

// arguments returns the main argument of a call, or all of them, and the files that it names.
func arguments(input json.RawMessage) (text string, paths []string) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil {
		return string(input), nil
	}
	field := func(names ...string) string {
		for _, name := range names {
			var value string
			if json.Unmarshal(fields[name], &value) == nil && value != "" {
				return value
			}
		}
		return ""
	}
	text = field("command", "file_path", "notebook_path", "pattern", "url", "query", "path")
	text = cmp.Or(text, string(input))
	if path := field("file_path", "notebook_path"); path != "" {
		paths = []string{path}
	}
	return text, paths
}

// returned is what a tool returned: a string or a list of blocks.
func returned(content json.RawMessage) string {
	var said string
	if json.Unmarshal(content, &said) == nil {
		return said
	}
	var blocks []block
	if json.Unmarshal(content, &blocks) != nil {
		return string(content)
	}
	texts := make([]string, 0, len(blocks))
	for _, b := range blocks {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		} else {
			texts = append(texts, "["+b.Type+"]")
		}
	}
	return strings.Join(texts, "\n")
}

func (e event) result() Part {
	p := Part{Kind: Result, Text: e.Result, Failed: e.IsError, Figures: Figures{Turns: e.Turns, CostUSD: e.Cost}}
	p.Text = cmp.Or(p.Text, strings.Join(e.Errors, "\n"))
	if e.Duration != nil {
		took := time.Duration(*e.Duration) * time.Millisecond
		p.Figures.Duration = &took
	}
	return p
}

// codexEvent is a line of `codex exec --json`.
type codexEvent struct {
	Message string `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
	Item  codexItem `json:"item"`
	Usage struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
}

type codexItem struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Message   string          `json:"message"`
	Command   string          `json:"command"`
	Output    string          `json:"aggregated_output"`
	Exit      *int            `json:"exit_code"`
	Status    string          `json:"status"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Returned  struct {
		Content json.RawMessage `json:"content"`
	} `json:"result"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
	Query   string `json:"query"`
	Changes []struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
	} `json:"changes"`
	Items []struct {
		Text      string `json:"text"`
		Completed bool   `json:"completed"`
	} `json:"items"`
}

func readCodex(line string, e event) Part {
	var c codexEvent
	if !decode([]byte(line), &c) {
		return e.other()
	}
	switch e.Type {
	case "thread.started":
		return Part{Kind: Start, Text: "A conversation starts."}
	case "turn.completed":
		return Part{Kind: Result, Figures: Figures{Tokens: &Tokens{Read: c.Usage.Input, Written: c.Usage.Output}}}
	case "turn.failed":
		return Part{Kind: Result, Text: c.Error.Message, Failed: true}
	case "error":
		return Part{Kind: Retry, Text: c.Message}
	case "item.started":
		return c.Item.started()
	case "item.completed":
		return c.Item.completed()
	}
	return e.other()
}

func (i codexItem) started() Part {
	if text, called := i.call(); called {
		return Part{Kind: Call, Tool: i.tool(), Text: text, Call: i.ID}
	}
	return Part{Kind: Event, Text: i.Type + " started"}
}

func (i codexItem) completed() Part {
	switch i.Type {
	case "agent_message":
		return Part{Kind: Text, Text: i.Text}
	case "reasoning":
		return Part{Kind: Thinking, Text: i.Text}
	case "error":
		return Part{Kind: Event, Text: i.Message}
	case "todo_list":
		return Part{Kind: Thinking, Text: i.list()}
	}
	text, called := i.call()
	if !called {
		return Part{Kind: Event, Text: i.Type}
	}
	p := Part{
		Kind: Output, Tool: i.tool(), Text: i.Output, Answer: i.ID, Refused: i.Status == "declined",
		Failed: i.Status == "failed" || i.Status == "declined" || i.Exit != nil && *i.Exit != 0,
	}
	for _, c := range i.Changes {
		p.Paths = append(p.Paths, c.Path)
	}
	if i.Type == "command_execution" {
		input, _ := json.Marshal(map[string]string{"command": text}) // strings can always be encoded
		p.Input = string(input)
	}
	switch {
	case i.Error.Message != "":
		p.Text, p.Failed = i.Error.Message, true
	case len(i.Returned.Content) > 0:
		p.Text = returned(i.Returned.Content)
	case i.Type != "command_execution" && p.Text == "":
		p.Text = text
	}
	if i.Exit != nil && *i.Exit != 0 {
		p.Text = strings.TrimSpace(fmt.Sprintf("Exit code %d\n%s", *i.Exit, p.Text))
	}
	return p
}

// tool is the name of a tool, the same as Claude Code's where it does the same.
func (i codexItem) tool() string {
	names := map[string]string{"command_execution": "Bash", "file_change": "Edit", "web_search": "WebSearch", "mcp_tool_call": i.Tool}
	if name, known := names[i.Type]; known {
		return name
	}
	return i.Type
}

// call returns what a call was given, and whether the item is a call.
func (i codexItem) call() (text string, called bool) {
	switch i.Type {
	case "command_execution":
		return Command(i.Command), true
	case "mcp_tool_call":
		return string(i.Arguments), true
	case "web_search":
		return i.Query, true
	case "file_change":
		lines := make([]string, 0, len(i.Changes))
		for _, c := range i.Changes {
			lines = append(lines, strings.TrimSpace(c.Kind+" "+c.Path))
		}
		return strings.Join(lines, "\n"), true
	}
	return "", false
}

func (i codexItem) list() string {
	lines := make([]string, 0, len(i.Items))
	for _, one := range i.Items {
		mark := "[ ] "
		if one.Completed {
			mark = "[x] "
		}
		lines = append(lines, mark+one.Text)
	}
	return strings.Join(lines, "\n")
}

// Compiled once; read only. Codex tells a command with the shell it gives it to.
var shellShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:/\S*/)?(?:ba|z|da)?sh -l?c (.+)$`) })

// Command is a command of Codex without the shell around it.
func Command(command string) string {
	m := shellShape().FindStringSubmatch(strings.ReplaceAll(command, "\n", "\x00"))
	if m == nil {
		return command
	}
	word, ok := unquoted(strings.ReplaceAll(m[1], "\x00", "\n"))
	if !ok {
		return command
	}
	return word
}

// unquoted reads a text as one word of a shell, and says whether it is one.
func unquoted(text string) (word string, ok bool) {
	var out strings.Builder
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '\'':
			out.WriteByte(c)
		case c == '\\' && i+1 < len(text) && (quote == 0 || strings.IndexByte("$`\"\\", text[i+1]) >= 0):
			i++
			out.WriteByte(text[i])
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && strings.IndexByte(" \t\n", c) >= 0:
			return "", false
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), quote == 0
}
