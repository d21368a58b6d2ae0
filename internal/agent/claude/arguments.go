package claude

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

const maxArgument = 100_000 // longer texts travel by file

// arguments builds what comes after the name of the program. Texts that do not fit into one argument travel by file: the
// returned one is the standard input.
func arguments(
	spec ops.SessionSpec, f agent.Folders, p *agent.Prepared, settings sealed, can abilities,
) (args []string, stdin *os.File, err error) {
	if err := p.WriteFile(settings.path, settings.content); err != nil {
		return nil, nil, err
	}
	args = []string{"-p"}
	prompt := strings.ReplaceAll(spec.Prompt, "\x00", "")
	byFile := len(prompt) > maxArgument || strings.HasPrefix(prompt, "-")
	if !byFile {
		// Right behind -p: lists of tools would swallow it.
		args = append(args, prompt)
	}
	args = append(args, "--output-format", "stream-json", "--verbose")
	args = appendOption(args, "--model", spec.Session.Model)
	if spec.Resume != "" {
		args = append(args, "--resume", spec.Resume, "--fork-session")
	}
	args = appendOption(args, "--session-id", spec.Session.PlannedID)
	if spec.Resume != "" && can.snapshots {
		// Otherwise the CLI goes on with the system prompt and the tools of the tier below.
		args = append(args, "--system-prompt-snapshot", "off")
	}
	system := strings.ReplaceAll(spec.SystemPrompt, "\x00", "")
	if len(system) > maxArgument {
		name := filepath.Join(f.Agent, "system-"+fileTag(spec)+".md")
		if err := p.WriteFile(name, system); err != nil {
			return nil, nil, err
		}
		args = append(args, "--append-system-prompt-file", name)
	} else {
		args = appendOption(args, "--append-system-prompt", system)
	}
	args = appendOption(args, "--tools", strings.Join(spec.Tools.Tools, ","))
	args = appendOption(args, "--allowedTools", strings.Join(spec.Tools.Allowed, ","))
	args = appendOption(args, "--disallowedTools", strings.Join(spec.Tools.Disallowed, ","))
	if can.skills {
		args = append(args, "--disable-slash-commands")
	}
	if can.prompts {
		args = append(args, "--permission-prompts", "none")
	}
	args = append(args, "--permission-mode", "dontAsk", "--settings", settings.path, "--setting-sources", "", "--strict-mcp-config")
	if spec.Gate != nil && len(spec.Gate.Tools.MCP) > 0 {
		name, err := writeServers(spec, f, p)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, "--mcp-config", name)
	}
	args = appendOption(args, "--json-schema", spec.OutcomeJSON)
	if spec.BudgetUSD > 0 && can.budgets {
		// It counts what this run spends, also where it continues a conversation, so nothing is added for what that one has
		// cost. The CLI looks after every call of the model: a run spends up to one call more than the limit, and the answer
		// of that call is lost, the tools it asks for are not run.
		args = append(args, "--max-budget-usd", strconv.FormatFloat(spec.BudgetUSD, 'f', -1, 64))
	}
	if byFile {
		stdin, err = agent.TextFile(f.Agent, prompt)
	}
	return args, stdin, err
}

// writeServers writes the one MCP server of a session: the supervisor's. It names the key of the session, so it is a file and not
// an argument, which every process can read.
func writeServers(spec ops.SessionSpec, f agent.Folders, p *agent.Prepared) (string, error) {
	argv := spec.Gate.Tools.MCP
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{ops.ToolServerName: map[string]any{
		"type": "stdio", "command": argv[0], "args": argv[1:], "env": map[string]string{"CLAUDEOPS_SESSION_KEY": spec.Session.Key},
	}}})
	if err != nil {
		return "", fmt.Errorf("describe the tools of the session: %w", err)
	}
	name := filepath.Join(f.Agent, "tools-"+fileTag(spec)+".json")
	return name, p.WriteFile(name, string(text))
}

func appendOption(args []string, name, value string) []string {
	if value == "" {
		return args
	}
	return append(args, name, value)
}

// fileTag tells the files of one session from those of another.
func fileTag(spec ops.SessionSpec) string {
	if agent.FileNameSafe(spec.Session.Key) {
		return spec.Session.Key
	}
	return fmt.Sprintf("session-%d", spec.Session.ID)
}

// sealed is a file that must not change between its making and the start.
type sealed struct {
	path    string
	content string
	sum     [sha256.Size]byte
}

// settingsFor are the settings of a session. The CLI silently ignores a settings file that is not JSON, and with it the hook,
// so it is checked, and written again for every session.
func settingsFor(spec ops.SessionSpec, f agent.Folders) (sealed, error) {
	content := "{}\n"
	if spec.Gate != nil {
		content = string(spec.Gate.Settings)
	}
	if !json.Valid([]byte(content)) {
		return sealed{}, agent.Refuse(ops.FailureStart, "the settings of the agent are not JSON")
	}
	path := filepath.Join(f.Agent, "settings-"+fileTag(spec)+".json")
	return sealed{path: path, content: content, sum: sha256.Sum256([]byte(content))}, nil
}

// verify reads the file once more: without the hook in it no gate would judge the agent's tool calls.
func (s sealed) verify() error {
	raw, err := os.ReadFile(s.path)
	if err != nil {
		return agent.Refuse(ops.FailureStart, "the settings of the agent cannot be read again: %v", err)
	}
	if sha256.Sum256(raw) != s.sum {
		return agent.Refuse(ops.FailureStart,
			"the settings of the agent were changed before it started: another program writes to %s", s.path)
	}
	return nil
}

// ownShare takes out of the figures of a resumed run what the conversation had used before, for a CLI that does not tell the
// share apart. Its totals go on from a line that the run before left at the end of the record; without that line they
// begin at zero.
func (d *decoder) ownShare(res *ops.RunResult) {
	if u := d.result.Usage; u != nil {
		res.InputTokens, res.OutputTokens = whole(u.Input), whole(u.Output)
		res.CacheReadTokens, res.CacheWriteTokens = whole(u.CacheRead), whole(u.CacheWrite)
	}
	if res.ReportedUSD == nil || d.spent == nil || !carriesCost(d.before.Path) {
		return
	}
	res.CostUSD = ops.Ptr(max(*res.ReportedUSD-*d.spent, 0))
}

// carriesCost reports whether the record of a conversation ends with the sum of its cost.
func carriesCost(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	const most = 64 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return false
		}
	}
	tail, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return false
	}
	tail = bytes.TrimSpace(tail)
	last := tail[bytes.LastIndexByte(tail, '\n')+1:]
	return bytes.Contains(last, []byte(`"type":"cost-state"`))
}

// maxRetries is how often Claude Code repeats a call of the model that failed.
const maxRetries = "CLAUDE_CODE_MAX_RETRIES"

// passes reports whether a variable of the supervisor reaches the agent.
func (c *Claude) passes(name string) bool {
	return slices.Contains(c.o.ExtraEnv, name) || name == "BASH_DEFAULT_TIMEOUT_MS" || name == "BASH_MAX_TIMEOUT_MS" ||
		slices.Contains(ops.CLIVariables(), name) && !strings.HasPrefix(name, "OPENAI_")
}

// environment builds the environment of the agent.
func (c *Claude) environment(spec ops.SessionSpec, f agent.Folders) []string {
	defaults := map[string]string{
		"DISABLE_AUTOUPDATER":                      "1",
		"DISABLE_TELEMETRY":                        "1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		maxRetries:       "2",      // failures are judged here, not waited for there
		"API_TIMEOUT_MS": "300000", // below our own idle limit, so that the CLI can say what it waited for
	}
	if spec.Limits.Tool > 0 {
		// A little less than our own limit, so that the CLI ends a command that hangs and the session can go on.
		ms := strconv.FormatInt(max(int64(spec.Limits.Tool*9/10/time.Millisecond), 1), 10)
		defaults["BASH_DEFAULT_TIMEOUT_MS"], defaults["BASH_MAX_TIMEOUT_MS"] = ms, ms
	}
	set := map[string]string{
		"CLAUDE_CONFIG_DIR": f.Config,
		// A session gets nothing from the operator's account.
		"CLAUDE_CODE_SYNC_SKILLS": "0", "CLAUDE_CODE_SYNC_PLUGINS": "0", "CLAUDE_CODE_SYNC_PLUGIN_INSTALL": "0",
		"CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1", "ENABLE_CLAUDEAI_MCP_SERVERS": "false",
	}
	if spec.Gate != nil {
		set["CLAUDE_CODE_SHELL_PREFIX"] = spec.Gate.ShellPrefix
	}
	return agent.Environment(spec, f, agent.Variables{Passes: c.passes, Defaults: defaults, Set: set})
}
