package realcli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"claudeops/test/messagesapi"
	"claudeops/test/realcli"
)

const (
	first  = "11111111-1111-4111-8111-111111111111"
	second = "22222222-2222-4222-8222-222222222222"
	third  = "33333333-3333-4333-8333-333333333333"

	// patience bounds one run, far above what it takes on a busy machine.
	patience = 2 * time.Minute
)

// cli is a Claude Code with its own home, working folder and API.
type cli struct {
	t      *testing.T
	api    *messagesapi.Server
	env    []string
	dir    string
	config string
}

func newCLI(t *testing.T, script messagesapi.Script) *cli {
	t.Helper()
	c := &cli{t: t, api: messagesapi.New(t, script), dir: t.TempDir()}
	c.env = realcli.Env(t, c.api.URL())
	for _, v := range c.env {
		if config, ok := strings.CutPrefix(v, "CLAUDE_CONFIG_DIR="); ok {
			c.config = config
		}
	}
	return c
}

// arguments are those the supervisor always gives, and more.
func arguments(prompt string, more ...string) []string {
	return append([]string{
		"-p", prompt, "--output-format", "stream-json", "--verbose",
		"--permission-mode", "dontAsk", "--setting-sources", "", "--strict-mcp-config",
	}, more...)
}

// fresh starts a new conversation.
func (c *cli) fresh(id, prompt, model, tools string, more ...string) output {
	c.t.Helper()
	args := arguments(prompt, "--session-id", id, "--model", model, "--tools", tools, "--allowedTools", tools)
	return c.run(append(args, more...)...)
}

// fork continues a conversation under a new id.
func (c *cli) fork(parent, id, prompt, model, tools string, more ...string) output {
	c.t.Helper()
	return c.fresh(id, prompt, model, tools, append([]string{"--resume", parent, "--fork-session"}, more...)...)
}

func (c *cli) command(args ...string) *exec.Cmd {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	c.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, realcli.Path(c.t), args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs the program to its end.
func (c *cli) run(args ...string) output {
	c.t.Helper()
	cmd := c.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		c.t.Fatalf("run claude: %v", err)
	}
	return c.read(cmd, stdout.Bytes(), stderr.String())
}

func (c *cli) read(cmd *exec.Cmd, stdout []byte, stderr string) output {
	c.t.Helper()
	out := output{t: c.t, code: cmd.ProcessState.ExitCode(), stderr: stderr}
	for line := range bytes.Lines(stdout) {
		e := event{Raw: string(line)}
		if err := json.Unmarshal(line, &e); err != nil {
			c.t.Fatalf("a line of the output is no event: %v\n%s", err, line)
		}
		out.events = append(out.events, e)
	}
	return out
}

// requests are the calls of the model a function leads to.
func (c *cli) requests(during func()) []messagesapi.Request {
	c.t.Helper()
	before := len(c.api.Requests())
	during()
	return c.api.Requests()[before:]
}

// last is the last call of the model.
func (c *cli) last() messagesapi.Request {
	c.t.Helper()
	all := c.api.Requests()
	if len(all) == 0 {
		c.t.Fatal("the model was never called")
	}
	return all[len(all)-1]
}

// output is what a run left behind.
type output struct {
	t      *testing.T
	code   int
	stderr string
	events []event
}

type event struct {
	Raw       string   `json:"-"`
	Type      string   `json:"type"`
	Subtype   string   `json:"subtype"`
	SessionID string   `json:"session_id"`
	Version   string   `json:"claude_code_version"`
	Model     string   `json:"model"`
	Tools     []string `json:"tools"`
	Error     string   `json:"error"`
	Message   message  `json:"message"`
}

type message struct {
	ID    string            `json:"id"`
	Model string            `json:"model"`
	Usage messagesapi.Usage `json:"usage"`
}

// UnmarshalJSON leaves out a message that is a mere text, as in the event of a denial.
func (m *message) UnmarshalJSON(data []byte) error {
	type plain message
	if bytes.HasPrefix(data, []byte(`"`)) {
		return nil
	}
	return json.Unmarshal(data, (*plain)(m))
}

// result is the event that tells how the run went.
type result struct {
	Type       string            `json:"type"`
	Subtype    string            `json:"subtype"`
	IsError    bool              `json:"is_error"`
	APIStatus  *int              `json:"api_error_status"`
	SessionID  string            `json:"session_id"`
	Text       string            `json:"result"`
	Errors     []string          `json:"errors"`
	Turns      int               `json:"num_turns"`
	Reason     string            `json:"terminal_reason"`
	Cost       float64           `json:"total_cost_usd"`
	Usage      messagesapi.Usage `json:"usage"`
	Models     map[string]share  `json:"modelUsage"`
	Own        map[string]share  `json:"model_usage_since_last_result"`
	Structured json.RawMessage   `json:"structured_output"`
	Denials    []struct {
		Tool  string          `json:"tool_name"`
		UseID string          `json:"tool_use_id"`
		Input json.RawMessage `json:"tool_input"`
	} `json:"permission_denials"`
}

type share struct {
	Input      int     `json:"inputTokens"`
	Output     int     `json:"outputTokens"`
	CacheRead  int     `json:"cacheReadInputTokens"`
	CacheWrite int     `json:"cacheCreationInputTokens"`
	Cost       float64 `json:"costUSD"`
	Window     int     `json:"contextWindow"`
}

func (s share) usage() messagesapi.Usage {
	return messagesapi.Usage{Input: s.Input, Output: s.Output, CacheRead: s.CacheRead, CacheWrite: s.CacheWrite}
}

// result returns the one result event, and fails the test when there is another number of them.
func (o output) result() result {
	o.t.Helper()
	found := o.all("result", "")
	if len(found) != 1 {
		o.t.Fatalf("there are %d result events, want 1\n%s", len(found), o)
	}
	var r result
	if err := json.Unmarshal([]byte(found[0].Raw), &r); err != nil {
		o.t.Fatalf("read the result: %v\n%s", err, found[0].Raw)
	}
	return r
}

// succeeded fails the test unless the run went well.
func (o output) succeeded() result {
	o.t.Helper()
	r := o.result()
	if o.code != 0 || r.IsError || r.Subtype != "success" || r.Reason != "completed" {
		o.t.Fatalf("the run failed\n%s", o)
	}
	return r
}

// all returns the events of a type, and of a subtype unless that is empty.
func (o output) all(kind, subtype string) []event {
	var found []event
	for _, e := range o.events {
		if e.Type == kind && (subtype == "" || e.Subtype == subtype) {
			found = append(found, e)
		}
	}
	return found
}

func (o output) String() string {
	var b strings.Builder
	b.WriteString("exit code " + jsonOf(o.code) + "\n" + o.stderr)
	for _, e := range o.events {
		if e.Subtype != "init" {
			b.WriteString(e.Raw)
		}
	}
	return b.String()
}

func jsonOf(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// transcript is where the program keeps a conversation.
func (c *cli) transcript(id string) string {
	return filepath.Join(c.config, "projects", folderName(c.dir), id+".jsonl")
}

func (c *cli) readTranscript(id string) []byte {
	c.t.Helper()
	data, err := os.ReadFile(c.transcript(id))
	must(c.t, err)
	return data
}

var odd = regexp.MustCompile(`[^a-zA-Z0-9]`)

// folderName is the working folder as the program writes it in a file name: each UTF-16 unit that
// is neither a letter nor a digit of ASCII becomes a dash. Beyond 200 it is cut and a hash follows.
func folderName(dir string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(dir)) {
		b.WriteRune(rune(unit))
	}
	return odd.ReplaceAllString(b.String(), "-")
}
