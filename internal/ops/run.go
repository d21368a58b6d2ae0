package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits bound one session in time.
type Limits struct {
	Wall  time.Duration `json:"wall,omitempty"`  // the whole session
	Idle  time.Duration `json:"idle,omitempty"`  // no output while no tool call is open
	Tool  time.Duration `json:"tool,omitempty"`  // one open tool call
	Grace time.Duration `json:"grace,omitempty"` // between the polite and the final signal
}

// Or fills what is not set from other limits.
func (l Limits) Or(other Limits) Limits {
	return Limits{
		Wall: cmp.Or(l.Wall, other.Wall), Idle: cmp.Or(l.Idle, other.Idle),
		Tool: cmp.Or(l.Tool, other.Tool), Grace: cmp.Or(l.Grace, other.Grace),
	}
}

// ToolLists are the tools a tier has, may use unasked, and must not use.
type ToolLists struct {
	Tools      []string
	Allowed    []string
	Disallowed []string
}

// SessionSpec is everything an agent needs to run one session.
type SessionSpec struct {
	Session      Session
	Environment  string
	Prompt       string
	SystemPrompt string
	Tools        ToolLists
	Resume       string      // the conversation to fork; empty for a fresh one
	Conversation Fingerprint // what the record of that conversation must look like
	SpentUSD     *float64    // what the CLI reported as the total of that conversation
	OutcomeJSON  string      // the JSON Schema of the outcome; empty when none is demanded
	StateDir     string
	WorkDir      string
	DryRun       bool
	Env          []string // NAME=value, what passes through from the supervisor's own environment
	Limits       Limits
	Gate         *GateSpec // nil: the CLI's own lists are all there is
	Command      []string  // agent command: the program and its arguments
	BudgetUSD    float64   // what the session may spend; 0 means no limit
	// Deadline is when the session has to end, also when it prints nothing; zero means none. A tool call that is open then may
	// take ten seconds more.
	Deadline time.Time
	// Watch is told what the session does, as it does it, in order. A stop it returns ends the session: at once, or where
	// Boundary is set when no tool call is open.
	Watch func(Activity) *Halt
}

// BudgetAsk is the money that is reserved when a session starts: the least of what is limited. Zero means no limit, and a
// negative amount that nothing is left.
type BudgetAsk struct {
	Want     float64 // what session and chain have left
	DayLimit float64 // of the environment
}

// ActivityKind is what a session did.
type ActivityKind string

// The kinds of activity.
const (
	ActivityCall   ActivityKind = "call"   // a tool call was made
	ActivityResult ActivityKind = "result" // it returned
	ActivityUsage  ActivityKind = "usage"  // the model was called
)

// ToolOutcome is what an agent calls to give its outcome.
const ToolOutcome = "StructuredOutput"

// Activity is one thing a session did, in the same words for every CLI.
type Activity struct {
	Kind   ActivityKind
	At     time.Time
	UseID  string // of the tool call
	Tool   string
	Input  string // JSON of the arguments
	Output string // what the tool returned, shortened; for hashing
	Failed bool   // the tool reported an error
	// Message and the tokens belong to usage: one model call may be told in several lines with one message id.
	Message          string
	Model            string
	InputTokens      int64
	OutputTokens     int64
	CacheReadTokens  int64
	CacheWriteTokens int64
	Written          int64 // bytes the model wrote in this line; the tokens told while a call runs do not count its output
}

// Call is one tool call of a session with its result.
type Call struct {
	UseID    string
	Tool     string
	Input    string
	Output   string // shortened
	Failed   bool   // the tool reported an error
	Refused  string // why it did not run
	Returned bool
}

// Price is what a million tokens of a model cost, in USD.
type Price struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cache_read"`
	CacheWrite float64 `json:"cache_write"`
}

// Halt is why and when a session has to stop.
type Halt struct {
	Cause    StopCause
	Why      string
	Boundary bool   // let an open tool call end first
	Call     string // the tool call that a loop repeated
}

// GateSpec is how a session is tied to its gates.
type GateSpec struct {
	Settings    []byte // of the CLI, with the hook that asks the gate
	ShellPrefix string // the program every shell command goes through
	// Allowed reports whether a gate allowed the tool call. Nil means that nobody holds the session to it.
	Allowed func(toolUseID string) bool
	Env     []string // NAME=value, added to the agent's environment
	Tools   ToolServer
	// Walled reports whether a wall may keep the session from a path; nil where it has no walls.
	Walled func(path string) bool
	// Unseen reports whether something that is there is not visible to the session; nil where everything is.
	Unseen func(path string) bool
}

// namedPath finds a path in a command, in JSON or in what a program says.
var namedPath = Pattern("(?:^|[^\\w./~-]|\\\\[nt])(/[\\w.@%+~-][^\\s\"'`\\\\<>|;&()*?$,:{}\\[\\]]*)")

// Paths are the absolute paths that a text names.
func Paths(text string) []string {
	var out []string
	for _, found := range namedPath().FindAllStringSubmatch(text, -1) {
		if path := strings.TrimRight(found[1], "/."); !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}

// ToolServer is how an agent reaches the tools of the supervisor; the zero value means that it has none.
type ToolServer struct {
	MCP    []string // program and arguments of an MCP server over standard input and output
	Folder string   // of a command for agents without MCP
	Socket string   // that the command asks
}

// ProgramsVariable holds the folder of the programs that 'claudeops agent install' put there, in the environment in which agents are looked
// for. No agent gets it.
const ProgramsVariable = "CLAUDEOPS_PROGRAMS"

// ToolServerName is the name of the supervisor's MCP server. The names of its tools begin with it.
const ToolServerName = "claudeops"

// CLIVariables are the variables of Claude Code, and of OpenAI's programs, that reach an agent without being named in agent.env: the
// model, its provider and its key, and what makes the CLI quieter. Others of the same prefixes choose what code it loads or where it
// sends to.
func CLIVariables() []string {
	return []string{
		"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_BETAS", "ANTHROPIC_MODEL",
		"ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL",
		"ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL", "ANTHROPIC_VERTEX_PROJECT_ID", "CLAUDE_CODE_OAUTH_TOKEN",
		"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_SKIP_BEDROCK_AUTH", "CLAUDE_CODE_SKIP_VERTEX_AUTH",
		"CLAUDE_CODE_CLIENT_CERT", "CLAUDE_CODE_CLIENT_KEY", "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE", "CLAUDE_CODE_MAX_RETRIES",
		"CLAUDE_CODE_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_EFFORT_LEVEL", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
		"DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_BUG_COMMAND", "DISABLE_COST_WARNINGS",
		"DISABLE_NON_ESSENTIAL_MODEL_CALLS", "DISABLE_PROMPT_CACHING", "DISABLE_COMPACT", "DISABLE_AUTO_COMPACT", "DISABLE_INTERLEAVED_THINKING",
		"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "OPENAI_MODEL",
	}
}

// ToolActionRun is the tool with which a session asks for an action.
const ToolActionRun = "action_run"

// SessionTools are the names of the supervisor's tools.
func SessionTools() []string {
	return []string{"actions_list", ToolActionRun, "action_undo", "services_status", "probe_now", "cooldowns", "look"}
}

// Recorder takes the redacted output of a session, in order, as it comes.
type Recorder interface {
	Started(ctx context.Context, pid int, processStarted string) error
	Lines(ctx context.Context, lines []Line) error
}

// Ability is what a program can do, as far as its version tells.
type Ability struct {
	Program    string // where it is; empty when it was not found
	Identity   string // tells the files that it is started from apart from what takes their place
	Version    string
	Known      bool
	Why        string // it does not run, in its own last words
	Structured bool   // it answers with structured output when given a schema
	NoFiles    bool   // it cannot leave a handoff file, so structured output is all it has
	Tells      bool   // its output says which tools it used; of others nobody knows what they did
	Ungated    bool   // it asks nobody before it acts: the walls of its tier hold it, and gates only where the walls put them in its way
}

// Trial is what was found out about a version of an agent program before its first session: whether its gates hold it.
type Trial struct {
	Agent    string
	Identity string // of the files that it is started from
	Program  string
	Version  string
	Held     bool
	Command  TrialCall // what became of the command that it was told to run
	File     TrialCall // and of the file that it was told to write
	At       time.Time
}

// TrialCall is what became of a call in a trial.
type TrialCall string

// What may become of it.
const (
	TrialRefused TrialCall = "refused" // its gate refused it, and it had no effect
	TrialUnasked TrialCall = "unasked" // no gate was asked, and it had no effect
	TrialRan     TrialCall = "ran"     // it had its effect
)

// Found says what became of both calls.
func (t Trial) Found() string {
	became := map[TrialCall]string{
		TrialRefused: "was refused by its gate", TrialUnasked: "had no effect, but no gate was asked", TrialRan: "was done",
	}
	return fmt.Sprintf("in its trial running a command %s, and writing a file %s", became[t.Command], became[t.File])
}

// Denial is a tool call the CLI itself refused.
type Denial struct {
	Tool  string          `json:"tool_name"`
	UseID string          `json:"tool_use_id"`
	Input json.RawMessage `json:"tool_input"`
}

// RunResult is what is known of a session's process after it ended.
type RunResult struct {
	ExitCode     *int // nil when the process never started
	ResultRead   bool
	IsError      bool
	CLISessionID string
	CLIVersion   string
	Model        string
	Structured   json.RawMessage
	Text         string // the agent's last words
	Denials      []Denial
	Warnings     []string // oddities of the stream worth an event
	Stop         StopCause
	StopWhy      string
	StopCall     string // the tool call that a loop repeated
	Err          string // why it failed, in one sentence; empty on success
	Failure      FailureClass
	APIStatus    *int
	RetryAfter   time.Duration
	OpenTool     string // the tool call that was open when the process ended
	Conversation Fingerprint
	ReportedUSD  *float64
	Figures
}

// Success reports whether the run succeeded: exit 0, a result was read, and it is no error.
func (r RunResult) Success() bool {
	return r.ExitCode != nil && *r.ExitCode == 0 && r.ResultRead && !r.IsError && r.Stop == StopNone && r.Err == ""
}
