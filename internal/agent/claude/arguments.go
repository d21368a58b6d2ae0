package claude

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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
